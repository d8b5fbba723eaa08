package publish

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func namesOf(full *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) resourceNames {
	n := resourceNames{
		group: full.Spec.Group, version: version.Name, plural: full.Spec.Names.Plural,
		kind: full.Spec.Names.Kind, listKind: full.Spec.Names.ListKind,
	}
	if len(version.SelectableFields) > 0 {
		n.fields = selectableJSON(jsonPaths(version.SelectableFields))
	}
	return n
}

// decodedShape is ShapeOf for a decoded definition.
func decodedShape(full *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) Shape {
	s := Shape{
		namespaced: full.Spec.Scope == apiextensionsv1.NamespaceScoped,
		selectable: len(version.SelectableFields) > 0 && selectableFieldsEnabled(),
	}
	if version.Subresources != nil {
		s.status = version.Subresources.Status != nil
		s.scale = version.Subresources.Scale != nil
	}
	return s
}

// EntriesV2 makes the entries of one version in v2 documents, with Kubernetes' code for
// all that is not in a template.
func (t *PathTemplates) EntriesV2(full *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (Entries, error) {
	n := namesOf(full, version)
	if !n.isPlain() {
		built, err := buildPublishedV2(full, version.Name)
		if err != nil {
			return Entries{}, err
		}
		kind, list := built.Definitions[ModelPrefix(n.group, n.version)+n.kind], built.Definitions[ModelPrefix(n.group, n.version)+n.listKind]
		return encodeEntries(n, built.Paths, &kind, &list)
	}
	made, err := t.V2(decodedShape(full, version))
	if err != nil {
		return Entries{}, err
	}
	schema, err := made.builtin.schemaV2(full, version.Name)
	if err != nil {
		return Entries{}, err
	}
	return made.fill(n, schema)
}

// EntriesV3 makes the entries of one version in the v3 document of its group version.
// Kubernetes' code makes all that is not in a template.
func (t *PathTemplates) EntriesV3(full *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (Entries, error) {
	n := namesOf(full, version)
	if !n.isPlain() {
		built, err := BuildV3(full, version.Name)
		if err != nil {
			return Entries{}, err
		}
		models := ModelPrefix(n.group, n.version)
		return encodeEntries(n, built.Paths, built.Components.Schemas[models+n.kind], built.Components.Schemas[models+n.listKind])
	}
	made, err := t.V3(decodedShape(full, version))
	if err != nil {
		return Entries{}, err
	}
	schema, err := made.builtin.schemaV3(full, version.Name)
	if err != nil {
		return Entries{}, err
	}
	return made.fill(n, schema)
}

// encodeEntries returns the text of what Kubernetes' builder has made.
func encodeEntries(n resourceNames, paths json.Marshaler, kind, list *spec.Schema) (Entries, error) {
	var out Entries
	object, err := paths.MarshalJSON()
	if err != nil {
		return Entries{}, fmt.Errorf("encode paths of %s: %w", n.kind, err)
	}
	entries, err := ObjectEntries(object)
	if err != nil {
		return Entries{}, err
	}
	out.Paths = []byte(entries)
	for name, schema := range map[string]*spec.Schema{n.kind: kind, n.listKind: list} {
		object, err := schema.MarshalJSON()
		if err != nil {
			return Entries{}, fmt.Errorf("encode schema of %s: %w", name, err)
		}
		out.Append(nil, append([]byte(`"`+ModelPrefix(n.group, n.version)+name+`":`), object...))
	}
	return out, nil
}
