package publish

import (
	"encoding/json"
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/openapi"
)

// resourceNames are the names of a custom resource in one version.
type resourceNames struct {
	group, version, plural, kind, listKind string
	// fields is the JSON of the extension that lists its selectable fields.
	fields string
}

// plainName matches kinds that Kubernetes' builder copies letter by letter. It may change
// others in ways that a template does not know.
var plainName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

func (n resourceNames) isPlain() bool {
	return plainName.MatchString(n.kind) && plainName.MatchString(n.listKind)
}

// nameForm is a form in which a name occurs in documents.
type nameForm int

const (
	noName nameForm = iota
	groupName
	versionName
	pluralName
	kindName
	listKindName
	modelsName    // prefix of the names of schemas: ModelPrefix
	operationName // in operations: group and version without punctuation
	tagName
	createName // "create" and the kind, with an article
	deleteName
	fieldsName
)

// exemplarForms returns the forms of the exemplar's names. Of two names that begin alike
// the longer comes first.
func exemplarForms() []struct {
	text string
	form nameForm
} {
	n := resourceNames{group: exemplarGroup, version: ExemplarVersion, plural: exemplarPlural, kind: exemplarKind, listKind: exemplarListKind}
	n.fields = selectableJSON([]string{"." + exemplarField})
	var found []struct {
		text string
		form nameForm
	}
	for _, w := range []nameForm{fieldsName, createName, deleteName, tagName, operationName, modelsName,
		groupName, versionName, pluralName, kindName, listKindName} {
		found = append(found, struct {
			text string
			form nameForm
		}{n.form(w), w})
	}
	return found
}

// form returns the names in one form.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.buildRoute; compare at each upgrade.
func (n resourceNames) form(w nameForm) string {
	switch w {
	case groupName:
		return n.group
	case versionName:
		return n.version
	case pluralName:
		return n.plural
	case kindName:
		return n.kind
	case listKindName:
		return n.listKind
	case modelsName:
		return ModelPrefix(n.group, n.version)
	case operationName:
		return openapi.ToValidOperationID(n.trimmed(), true) + openapi.ToValidOperationID(n.version, true)
	case tagName:
		return openapi.ToValidOperationID(n.trimmed(), false) + "_" + openapi.ToValidOperationID(n.version, false)
	case createName:
		return "create" + endpoints.GetArticleForNoun(n.kind, " ") + n.kind
	case deleteName:
		return "delete" + endpoints.GetArticleForNoun(n.kind, " ") + n.kind
	case fieldsName:
		return n.fields
	}
	return ""
}

// trimmed returns the group as it occurs in operations and tags.
func (n resourceNames) trimmed() string { return strings.TrimSuffix(n.group, ".k8s.io") }

// jsonPaths returns the paths of selectable fields.
func jsonPaths(fields []apiextensionsv1.SelectableField) []string {
	paths := make([]string, len(fields))
	for i, field := range fields {
		paths[i] = field.JSONPath
	}
	return paths
}

// selectableExtension returns the value of the extension that lists selectable fields.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.buildSelectableFields; compare at each upgrade.
func selectableExtension(paths []string) []any {
	out := make([]any, len(paths))
	for i, path := range paths {
		out[i] = map[string]any{"fieldPath": strings.TrimPrefix(path, ".")}
	}
	return out
}

// selectableJSON returns the JSON of selectableExtension.
func selectableJSON(paths []string) string {
	out, err := json.Marshal(selectableExtension(paths))
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return string(out)
}
