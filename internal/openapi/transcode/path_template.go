package transcode

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// PathTemplate writes the entries of all custom resources of one Shape, given their
// names.
//
// It holds what Kubernetes builds for the Shape's exemplar: its paths and the schema of
// its list kind as text with names cut out, and the built-in properties of its kind.
// Kubernetes' builder takes milliseconds for the paths of one resource. A template takes
// microseconds.
type PathTemplate struct {
	v2          bool
	paths, list textTemplate
	proto       *lazyProtoTemplate
	builtin     builtinProperties
	// SharedSchemas are the JSON of the schemas that a v3 document of the Shape has
	// besides those of its kinds, by name. They are nil for v2, whose document has them
	// anyway.
	SharedSchemas map[string]string
}

// PathTemplates makes a template for each Shape when it is first asked for. There are at
// most 16 Shapes. A template takes some 20 kB. The zero value is ready for use.
type PathTemplates struct {
	mu struct {
		sync.Mutex
		v2, v3 map[Shape]*PathTemplate
	}
}

// V2 returns the template of v2 documents.
func (t *PathTemplates) V2(s Shape) (*PathTemplate, error) {
	return t.get(&t.mu.v2, s, newPathTemplateV2)
}

// V3 returns the template of v3 documents.
func (t *PathTemplates) V3(s Shape) (*PathTemplate, error) {
	return t.get(&t.mu.v3, s, newPathTemplateV3)
}

func (t *PathTemplates) get(made *map[Shape]*PathTemplate, s Shape, build func(Shape) (*PathTemplate, error)) (*PathTemplate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := (*made)[s]; found != nil {
		return found, nil
	}
	built, err := build(s)
	if err != nil {
		return nil, err
	}
	if *made == nil {
		*made = map[Shape]*PathTemplate{}
	}
	(*made)[s] = built
	return built, nil
}

func newPathTemplateV2(s Shape) (*PathTemplate, error) {
	built, err := buildPublishedV2(s.Exemplar(), ExemplarVersion)
	if err != nil {
		return nil, err
	}
	kind, list := built.Definitions[ExemplarModels+exemplarKind], built.Definitions[ExemplarModels+exemplarListKind]
	made, err := newPathTemplate(built.Paths, &kind, &list)
	if err != nil {
		return nil, err
	}
	made.v2 = true
	return made, nil
}

// buildPublishedV2 is BuildV2 after Kubernetes' aggregator has decoded and encoded the
// spec, which sorts the keys of extensions.
func buildPublishedV2(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Swagger, error) {
	built, err := BuildV2(full, version)
	if err != nil {
		return nil, err
	}
	return ThroughJSON(built)
}

func newPathTemplateV3(s Shape) (*PathTemplate, error) {
	built, err := BuildV3(s.Exemplar(), ExemplarVersion)
	if err != nil {
		return nil, err
	}
	kind, list := built.Components.Schemas[ExemplarModels+exemplarKind], built.Components.Schemas[ExemplarModels+exemplarListKind]
	if kind == nil || list == nil {
		return nil, fmt.Errorf("no schema of an exemplar's kind")
	}
	// The references in these schemas are wrapped already, and wrapping is idempotent.
	made, err := newPathTemplate(built.Paths, kind, list)
	if err != nil {
		return nil, err
	}
	made.SharedSchemas = map[string]string{}
	for name, schema := range built.Components.Schemas {
		if strings.HasPrefix(name, ExemplarModels) {
			continue
		}
		text, err := json.Marshal(schema)
		if err != nil {
			return nil, fmt.Errorf("encode schema %s: %w", name, err)
		}
		made.SharedSchemas[name] = string(text)
	}
	return made, nil
}

func newPathTemplate(paths json.Marshaler, kind, list *spec.Schema) (*PathTemplate, error) {
	made := &PathTemplate{proto: new(lazyProtoTemplate)}
	var err error
	if made.builtin, err = newBuiltinProperties(kind); err != nil {
		return nil, err
	}
	text, err := paths.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode an exemplar's paths: %w", err)
	}
	entries, err := ObjectEntries(text)
	if err != nil {
		return nil, err
	}
	made.paths = newTextTemplate(entries)
	if text, err = list.MarshalJSON(); err != nil {
		return nil, fmt.Errorf("encode an exemplar's list: %w", err)
	}
	made.list = newTextTemplate(`"` + ExemplarModels + exemplarListKind + `":` + string(text))
	return made, nil
}

// Entries are the parts of a document that belong to one definition: the insides of two
// JSON objects, without braces.
type Entries struct {
	Paths, Schemas []byte
	// binaryPaths are the paths in protobuf, in the place of Paths.
	binaryPaths []byte
}

// Append appends entries of the same objects.
func (t *Entries) Append(paths, schemas []byte) {
	t.Paths = appendEntries(t.Paths, paths)
	t.Schemas = appendEntries(t.Schemas, schemas)
}

func appendEntries(dst, src []byte) []byte {
	if len(dst) > 0 && len(src) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, src...)
}

// fill writes the entries of a version whose schema is kind.
func (t *PathTemplate) fill(n resourceNames, kind *spec.Schema) (Entries, error) {
	f := n.filler()
	var out Entries
	out.Paths = f.append(make([]byte, 0, t.paths.size()+t.paths.size()/4), t.paths)
	out.Schemas = f.append(make([]byte, 0, 4*t.list.size()), t.list)
	out.Schemas = append(out.Schemas, `,"`+ModelPrefix(n.group, n.version)+n.kind+`":`...)
	var err error
	out.Schemas, err = appendSchema(out.Schemas, kind)
	return out, err
}

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

// EntriesV3 makes the entries of one version in the v3 document of its group version,
// with Kubernetes' code for all that is not in a template.
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

// encodeEntries is the text of what Kubernetes' builder has made.
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

// HeadV3 is the beginning of v3 documents of custom resources, up to the entries of their
// paths.
var HeadV3 = sync.OnceValues(func() (string, error) {
	built, err := BuildV3(Shape{}.Exemplar(), ExemplarVersion)
	if err != nil {
		return "", err
	}
	head, err := (&spec3.OpenAPI{Version: built.Version, Info: built.Info}).MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("encode head of a v3 document: %w", err)
	}
	entries, err := ObjectEntries(head)
	if err != nil {
		return "", err
	}
	return "{" + entries + `,"paths":{`, nil
})
