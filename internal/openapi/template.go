package openapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/openapi"
)

// names are those of a custom resource in one version, in all forms that occur
// in its paths.
type names struct {
	group, version, plural, kind, list string
	// fields is the JSON of its selectable fields.
	fields string
}

// plain names go through Kubernetes' builder letter by letter; others it may
// change in ways that a template does not know.
var plainKind = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

func (n names) plain() bool {
	return plainKind.MatchString(n.kind) && plainKind.MatchString(n.list)
}

// word is a form of a name.
type word int

const (
	literal word = iota
	wordGroup
	wordVersion
	wordPlural
	wordKind
	wordList
	wordModels    // of the names of schemas: the group backwards
	wordOperation // of operations: group and version without punctuation
	wordTag
	wordCreate // "create" and the kind, with an article
	wordDelete
	wordFields
)

// sampleWords are the forms of a sample's names; of two that begin alike the
// longer is first.
func sampleWords() []struct {
	text string
	word word
} {
	n := names{group: sampleGroup, version: sampleVersion, plural: samplePlural, kind: sampleKind, list: sampleList}
	n.fields = selectableJSON([]string{"." + sampleField})
	var found []struct {
		text string
		word word
	}
	for _, w := range []word{wordFields, wordCreate, wordDelete, wordTag, wordOperation, wordModels,
		wordGroup, wordVersion, wordPlural, wordKind, wordList} {
		found = append(found, struct {
			text string
			word word
		}{n.text(w), w})
	}
	return found
}

func (n names) text(w word) string {
	switch w {
	case wordGroup:
		return n.group
	case wordVersion:
		return n.version
	case wordPlural:
		return n.plural
	case wordKind:
		return n.kind
	case wordList:
		return n.list
	case wordModels:
		return modelPrefix(n.group, n.version)
	case wordOperation:
		return openapi.ToValidOperationID(n.trimmed(), true) + openapi.ToValidOperationID(n.version, true)
	case wordTag:
		return openapi.ToValidOperationID(n.trimmed(), false) + "_" + openapi.ToValidOperationID(n.version, false)
	case wordCreate:
		return "create" + endpoints.GetArticleForNoun(n.kind, " ") + n.kind
	case wordDelete:
		return "delete" + endpoints.GetArticleForNoun(n.kind, " ") + n.kind
	case wordFields:
		return n.fields
	}
	return ""
}

// trimmed is the group as operations and tags are named after it.
func (n names) trimmed() string { return strings.TrimSuffix(n.group, ".k8s.io") }

// jsonPaths are those of the fields of selectors.
func jsonPaths(fields []apiextensionsv1.SelectableField) []string {
	paths := make([]string, len(fields))
	for i, field := range fields {
		paths[i] = field.JSONPath
	}
	return paths
}

// selectable is the extension that names the fields of selectors.
func selectable(paths []string) []any {
	out := make([]any, len(paths))
	for i, path := range paths {
		out[i] = map[string]any{"fieldPath": strings.TrimPrefix(path, ".")}
	}
	return out
}

func selectableJSON(paths []string) string {
	out, err := json.Marshal(selectable(paths))
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return string(out)
}

// template is text with the names of a custom resource left out.
type template []part

type part struct {
	text string // before the word
	word word
}

// cut makes a template of a sample's text.
func cut(text string) template {
	words := sampleWords()
	var t template
	start := 0
next:
	for i := 0; i < len(text); {
		for _, w := range words {
			if strings.HasPrefix(text[i:], w.text) {
				t = append(t, part{text[start:i], w.word})
				i += len(w.text)
				start = i
				continue next
			}
		}
		i++
	}
	return append(t, part{text: text[start:]})
}

// size is about that of a filled template.
func (t template) size() int {
	n := 0
	for _, p := range t {
		n += len(p.text) + 24
	}
	return n
}

// filler writes templates for one custom resource.
type filler struct {
	texts [wordFields + 1]string
}

func (n names) filler() *filler {
	f := &filler{}
	for w := range f.texts {
		f.texts[w] = n.text(word(w))
	}
	return f
}

func (f *filler) append(dst []byte, t template) []byte {
	for _, p := range t {
		dst = append(dst, p.text...)
		dst = append(dst, f.texts[p.word]...)
	}
	return dst
}

// inner returns the entries of a JSON object without its braces.
func inner(object []byte) (string, error) {
	if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
		return "", fmt.Errorf("not a JSON object: %.40q", object)
	}
	return string(object[1 : len(object)-1]), nil
}
