package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// mold makes the JSON of all custom resources of one shape.
type mold struct {
	v2          bool
	paths, list template
	proto       *protoPaths
	natives     natives
	// shared are the schemas that a v3 document of the shape has besides those of
	// its kinds, by name, as JSON. In v2 they are the base's.
	shared map[string]string
}

// molds are made from samples when a shape is first met. There are at most 16
// shapes, of some 20 kB in each version of OpenAPI.
type molds struct {
	mu struct {
		sync.Mutex
		v2, v3 map[shape]*mold
	}
}

func (m *molds) v2(s shape) (*mold, error) { return m.get(&m.mu.v2, s, newMoldV2) }

func (m *molds) v3(s shape) (*mold, error) { return m.get(&m.mu.v3, s, newMoldV3) }

func (m *molds) get(made *map[shape]*mold, s shape, build func(shape) (*mold, error)) (*mold, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := (*made)[s]; found != nil {
		return found, nil
	}
	built, err := build(s)
	if err != nil {
		return nil, err
	}
	if *made == nil {
		*made = map[shape]*mold{}
	}
	(*made)[s] = built
	return built, nil
}

func newMoldV2(s shape) (*mold, error) {
	built, err := published(s.sample(), sampleVersion)
	if err != nil {
		return nil, err
	}
	kind, list := built.Definitions[sampleModels+sampleKind], built.Definitions[sampleModels+sampleList]
	made, err := newMold(built.Paths, &kind, &list)
	if err != nil {
		return nil, err
	}
	made.v2 = true
	return made, nil
}

// published is buildV2 after the aggregator has read it, which sorts the keys of
// extensions.
func published(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Swagger, error) {
	built, err := buildV2(full, version)
	if err != nil {
		return nil, err
	}
	return throughJSON(built)
}

func newMoldV3(s shape) (*mold, error) {
	built, err := buildV3(s.sample(), sampleVersion)
	if err != nil {
		return nil, err
	}
	kind, list := built.Components.Schemas[sampleModels+sampleKind], built.Components.Schemas[sampleModels+sampleList]
	if kind == nil || list == nil {
		return nil, fmt.Errorf("no schema of a sample's kind")
	}
	// References in it are wrapped; wrapping them again, with all of a schema,
	// changes nothing.
	made, err := newMold(built.Paths, kind, list)
	if err != nil {
		return nil, err
	}
	made.shared = map[string]string{}
	for name, schema := range built.Components.Schemas {
		if strings.HasPrefix(name, sampleModels) {
			continue
		}
		text, err := json.Marshal(schema)
		if err != nil {
			return nil, fmt.Errorf("encode schema %s: %w", name, err)
		}
		made.shared[name] = string(text)
	}
	return made, nil
}

func newMold(paths json.Marshaler, kind, list *spec.Schema) (*mold, error) {
	made := &mold{proto: new(protoPaths)}
	var err error
	if made.natives, err = nativesOf(kind); err != nil {
		return nil, err
	}
	text, err := paths.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode a sample's paths: %w", err)
	}
	entries, err := inner(text)
	if err != nil {
		return nil, err
	}
	made.paths = cut(entries)
	if text, err = list.MarshalJSON(); err != nil {
		return nil, fmt.Errorf("encode a sample's list: %w", err)
	}
	made.list = cut(`"` + sampleModels + sampleList + `":` + string(text))
	return made, nil
}

// text is the entries of a document that belong to one version of a definition:
// the inside of JSON objects.
type text struct {
	paths, schemas []byte
	// binaryPaths are the paths in protobuf if there are none in JSON.
	binaryPaths []byte
}

// join appends what stands behind t in the same objects.
func (t *text) join(paths, schemas []byte) {
	t.paths = joined(t.paths, paths)
	t.schemas = joined(t.schemas, schemas)
}

func joined(dst, src []byte) []byte {
	if len(dst) > 0 && len(src) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, src...)
}

// fill writes a version's entries.
func (m *mold) fill(n names, kind *spec.Schema) (text, error) {
	f := n.filler()
	var out text
	out.paths = f.append(make([]byte, 0, m.paths.size()+m.paths.size()/4), m.paths)
	out.schemas = f.append(make([]byte, 0, 4*m.list.size()), m.list)
	out.schemas = append(out.schemas, `,"`+modelPrefix(n.group, n.version)+n.kind+`":`...)
	var err error
	out.schemas, err = appendSchema(out.schemas, kind)
	return out, err
}

func namesOf(full *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) names {
	n := names{
		group: full.Spec.Group, version: version.Name, plural: full.Spec.Names.Plural,
		kind: full.Spec.Names.Kind, list: full.Spec.Names.ListKind,
	}
	if len(version.SelectableFields) > 0 {
		n.fields = selectableJSON(jsonPaths(version.SelectableFields))
	}
	return n
}

// fullShape is shapeOf a decoded definition.
func fullShape(full *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) shape {
	s := shape{
		namespaced: full.Spec.Scope == apiextensionsv1.NamespaceScoped,
		selectable: len(version.SelectableFields) > 0 && selectors(),
	}
	if version.Subresources != nil {
		s.status = version.Subresources.Status != nil
		s.scale = version.Subresources.Scale != nil
	}
	return s
}

// textV2 is the entries of one version in v2 documents.
func (m *molds) textV2(full *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (text, error) {
	n := namesOf(full, version)
	if !n.plain() {
		built, err := published(full, version.Name)
		if err != nil {
			return text{}, err
		}
		kind, list := built.Definitions[modelPrefix(n.group, n.version)+n.kind], built.Definitions[modelPrefix(n.group, n.version)+n.list]
		return encoded(n, built.Paths, &kind, &list)
	}
	made, err := m.v2(fullShape(full, version))
	if err != nil {
		return text{}, err
	}
	schema, err := made.natives.schemaV2(full, version.Name)
	if err != nil {
		return text{}, err
	}
	return made.fill(n, schema)
}

// textV3 is the entries of one version in the v3 document of its group version.
func (m *molds) textV3(full *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (text, error) {
	n := namesOf(full, version)
	if !n.plain() {
		built, err := buildV3(full, version.Name)
		if err != nil {
			return text{}, err
		}
		models := modelPrefix(n.group, n.version)
		return encoded(n, built.Paths, built.Components.Schemas[models+n.kind], built.Components.Schemas[models+n.list])
	}
	made, err := m.v3(fullShape(full, version))
	if err != nil {
		return text{}, err
	}
	schema, err := made.natives.schemaV3(full, version.Name)
	if err != nil {
		return text{}, err
	}
	return made.fill(n, schema)
}

// encoded is the text of what Kubernetes' builder has made.
func encoded(n names, paths json.Marshaler, kind, list *spec.Schema) (text, error) {
	var out text
	object, err := paths.MarshalJSON()
	if err != nil {
		return text{}, fmt.Errorf("encode paths of %s: %w", n.kind, err)
	}
	entries, err := inner(object)
	if err != nil {
		return text{}, err
	}
	out.paths = []byte(entries)
	for name, schema := range map[string]*spec.Schema{n.kind: kind, n.list: list} {
		object, err := schema.MarshalJSON()
		if err != nil {
			return text{}, fmt.Errorf("encode schema of %s: %w", name, err)
		}
		out.join(nil, append([]byte(`"`+modelPrefix(n.group, n.version)+name+`":`), object...))
	}
	return out, nil
}

// headV3 is what v3 documents of custom resources begin with, up to the entries
// of their paths.
var headV3 = sync.OnceValues(func() (string, error) {
	built, err := buildV3(shape{}.sample(), sampleVersion)
	if err != nil {
		return "", err
	}
	head, err := (&spec3.OpenAPI{Version: built.Version, Info: built.Info}).MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("encode head of a v3 document: %w", err)
	}
	entries, err := inner(head)
	if err != nil {
		return "", err
	}
	return "{" + entries + `,"paths":{`, nil
})
