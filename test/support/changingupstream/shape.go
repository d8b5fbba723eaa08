package changingupstream

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
)

// Names has the names of a definition.
type Names struct{ Group, Plural, Kind string }

// Name returns the name of the definition's object.
func (n Names) Name() string { return n.Plural + "." + n.Group }

// DefinitionsPath is the path of all definitions.
const DefinitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// Path returns the path of the definition's object.
func (n Names) Path() string { return DefinitionsPath + "/" + n.Name() }

// Shape has the properties of a definition that a script changes. The definition has the
// versions v1 and v2, and v3 if Has3 is set; v2 is always served. The zero value serves v2
// alone, which is stored.
type Shape struct {
	ClusterScoped           bool
	ShortNames, Category    int
	Served1, Has3, Served3  bool
	Storage1                bool
	Schema                  int
	Required, Rule, Default bool
	// Conversion is the path of the webhook, "" for none.
	Conversion    string
	Columns       int
	Status, Scale bool
	Selectable    bool
	Deprecated    bool
	Generation    int
	// DefaultValue, if it is not empty, is the default in place of green.
	DefaultValue string
	// Wide gives v1 a field that the other versions do not have, and these a field that v1 does
	// not have: whichever version is stored, one of the fields shows. Unpruned keeps unknown
	// fields in all versions.
	Wide, Unpruned bool
	// Warns adds a warning with the generation to every answer of every version.
	Warns bool
}

// String returns the properties that differ from the zero value.
func (s Shape) String() string {
	fields := reflect.ValueOf(s)
	var set []string
	for i := range fields.NumField() {
		if !fields.Field(i).IsZero() {
			set = append(set, fmt.Sprintf("%s:%v", fields.Type().Field(i).Name, fields.Field(i)))
		}
	}
	return strings.Join(set, " ")
}

// ServedVersions returns the versions that are served.
func (s Shape) ServedVersions() []string {
	served := []string{"v2"}
	if s.Served1 {
		served = append(served, "v1")
	}
	if s.Has3 && s.Served3 {
		served = append(served, "v3")
	}
	return served
}

// Change changes one property at random. It may set Conversion only if hasWebhook is true.
func (s *Shape) Change(random *rand.Rand, hasWebhook bool) {
	toggle := func(b *bool) { *b = !*b }
	// Versions are served most of the time, so that most requests find their version.
	mostly := func(b *bool) { *b = !*b || random.IntN(3) > 0 }
	switch random.IntN(16) {
	case 0, 1, 2:
		s.ShortNames++
	case 3:
		s.Category++
	case 4:
		mostly(&s.Served1)
	case 5:
		mostly(&s.Has3)
	case 6:
		mostly(&s.Served3)
	case 7:
		toggle(&s.Storage1)
	case 8, 9:
		s.Schema++
	case 10:
		toggle([]*bool{&s.Required, &s.Rule, &s.Default}[random.IntN(3)])
	case 11:
		s.Columns = (s.Columns + 1) % 4
	case 12:
		toggle(&s.Status)
	case 13:
		toggle(&s.Scale)
	case 14:
		toggle([]*bool{&s.Selectable, &s.Deprecated}[random.IntN(2)])
	case 15:
		if paths := []string{"", WorkingConversion, WorkingConversion, FailingConversion}; hasWebhook {
			s.Conversion = paths[random.IntN(len(paths))]
		} else {
			s.ShortNames++
		}
	}
}

// Object returns the definition as JSON. The webhook may be nil if the shape has no conversion.
func (n Names) Object(s Shape, resourceVersion string, hook *Webhook) string {
	names := map[string]any{"plural": n.Plural, "singular": n.Plural[:len(n.Plural)-1], "kind": n.Kind, "listKind": n.Kind + "List"}
	if s.ShortNames > 0 {
		names["shortNames"] = []string{fmt.Sprintf("%s%d", n.Plural[:2], s.ShortNames)}
	}
	if s.Category > 0 {
		names["categories"] = []string{fmt.Sprintf("category%d", s.Category)}
	}
	v1, v2, v3 := s.version("v1"), s.version("v2"), s.version("v3")
	v1["served"], v1["storage"], v2["storage"] = s.Served1, s.Storage1, !s.Storage1
	all := []any{v1, v2}
	if s.Deprecated {
		v1["deprecated"] = true
	}
	if s.Has3 {
		v3["served"] = s.Served3
		all = append(all, v3)
	}
	scope := "Namespaced"
	if s.ClusterScoped {
		scope = "Cluster"
	}
	spec := map[string]any{"group": n.Group, "scope": scope, "names": names, "versions": all, "conversion": map[string]any{"strategy": "None"}}
	if s.Conversion != "" {
		spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []string{"v1"},
			"clientConfig":             map[string]any{"url": hook.url + s.Conversion, "caBundle": hook.ca},
		}}
	}
	metadata := map[string]any{"name": n.Name(), "annotations": map[string]any{"generation": fmt.Sprint(s.Generation)}}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec,
	})
	return string(text)
}

// version returns a version of the definition, served and not stored.
func (s Shape) version(name string) map[string]any {
	status := map[string]any{"type": "object", "properties": map[string]any{
		"replicas": map[string]any{"type": "integer"}, "selector": map[string]any{"type": "string"}, "phase": map[string]any{"type": "string"},
	}}
	v := map[string]any{
		"name": name, "served": true, "storage": false,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": s.spec(name), "status": status}}},
	}
	subresources := map[string]any{}
	if s.Status {
		subresources["status"] = map[string]any{}
	}
	if s.Scale {
		subresources["scale"] = map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}
	}
	v["subresources"] = subresources
	var columns []any
	for i := range s.Columns {
		columns = append(columns, map[string]any{"name": fmt.Sprintf("C%d", i), "type": "string", "jsonPath": ".spec.color"})
	}
	if columns != nil {
		v["additionalPrinterColumns"] = columns
	}
	if s.Selectable && !s.Wide { // creations are refused if the same fields are in different schemas
		v["selectableFields"] = []any{map[string]any{"jsonPath": ".spec.color"}}
	}
	if s.Warns {
		v["deprecated"], v["deprecationWarning"] = true, fmt.Sprintf(warningFormat, s.Generation)
	}
	return v
}

// spec returns the schema of a version's spec.
func (s Shape) spec(version string) map[string]any {
	color := map[string]any{"type": "string", "maxLength": 20}
	if s.Default {
		color["default"] = "green"
	}
	if s.DefaultValue != "" {
		color["default"] = s.DefaultValue
	}
	fields := map[string]any{
		"color": color, "replicas": map[string]any{"type": "integer"}, "selector": map[string]any{"type": "string"},
		fmt.Sprintf("extra%d", s.Schema): map[string]any{"type": "string"},
	}
	if s.Wide && version == "v1" {
		fields["narrow"] = map[string]any{"type": "string"}
	} else if s.Wide {
		fields["wide"] = map[string]any{"type": "string"}
	}
	inside := map[string]any{"type": "object", "properties": fields}
	if s.Required {
		inside["required"] = []string{"color"}
	}
	if s.Rule {
		inside["x-kubernetes-validations"] = []any{map[string]any{"rule": "!has(self.replicas) || self.replicas < 100"}}
	}
	if s.Unpruned {
		inside["x-kubernetes-preserve-unknown-fields"] = true
	}
	return inside
}
