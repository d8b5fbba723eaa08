package publish

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// PathTemplate writes the entries of all custom resources of one Shape, given their
// names.
//
// It holds what Kubernetes builds for the Shape's exemplar. The paths and the schema of its
// list kind are text with names cut out. The built-in properties of its kind are the third
// part. Kubernetes' builder takes milliseconds for the paths of one resource. A template
// takes microseconds.
type PathTemplate struct {
	v2          bool
	paths, list textTemplate
	proto       *lazyProtoTemplate
	builtin     builtinProperties
	// SharedSchemas are the JSON of the schemas that a v3 document of the Shape has
	// besides the schemas of its kinds, by name. The map is nil for v2, whose document
	// has all of them anyway.
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
