package crds

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	// seedsVariable is the environment variable with the number of random definitions.
	seedsVariable = "MILLRACE_CRD_SEEDS"
	defaultSeeds  = 12
)

// randomNames returns the names of the random runs.
func randomNames(t *testing.T) []string {
	t.Helper()
	count := defaultSeeds
	if given := os.Getenv(seedsVariable); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil {
			t.Fatalf("%s: %v", seedsVariable, err)
		}
		count = n
	}
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("random-%d", i))
	}
	return names
}

const (
	// maxRandomDefinitions bounds the definitions that a run makes until one is accepted.
	// Refusals are compared, too.
	maxRandomDefinitions = 6
	// redefinitions is the number of changes of the definition afterwards.
	redefinitions = 2
	randomObjects = 4
)

// random makes a random definition, random objects, and random changes of both.
func (r *run) random(name string) {
	r.ignoreErrorOrder()
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	m := &definitionMaker{generator: generator{Rand: rand.New(rand.NewPCG(r.pair.seed, h.Sum64())), full: true}, group: r.group}
	var d object
	for range maxRandomDefinitions {
		d = m.definition()
		if r.install(d) {
			break
		}
		d = nil
	}
	if d == nil {
		return
	}
	r.objects(d, randomObjects)
	r.mutate(m, d)
	for range redefinitions {
		next := m.definition()
		next["metadata"] = object{"name": nameOf(d)}
		now, was := next["spec"].(map[string]any), d["spec"].(map[string]any)
		now["names"], now["scope"] = was["names"], was["scope"]
		if !r.replace(next) {
			continue
		}
		d = next
		r.objects(d, randomObjects)
		r.mutate(m, d)
	}
	r.at = name + ": discovery"
	r.discovery(nil)
	r.at = name + ": OpenAPI"
	r.openAPI(nil)
	r.at = name + ": stored"
	r.compareStored(nil)
}

// replace updates a definition, and reports whether that was accepted.
func (r *run) replace(d object) bool {
	r.at = "replace " + nameOf(d)
	mark := r.mark(d, &step{})
	raw, err := json.Marshal(d)
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	var calls [2]call
	for i, side := range r.pair.sides {
		calls[i] = jsonCall(http.MethodPost, definitionsPath, string(raw))
		if err := update(side, &calls[i]); err != nil {
			r.fatalf("%s: %v", r.at, err)
		}
	}
	s := &step{}
	r.report(r.ask(calls, s, false))
	if s.theirStatus != http.StatusOK {
		return false
	}
	r.pair.definitions.Add(1)
	r.awaitDefinition(&step{}, calls[0], mark)
	return true
}

// mutate patches, applies and deletes objects that run.objects has created.
func (r *run) mutate(m *definitionMaker, d object) {
	spec := d["spec"].(map[string]any)
	for _, v := range spec["versions"].([]any) {
		version := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		name := version["name"].(string)
		schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		for i := range randomObjects {
			path := fmt.Sprintf("%s/%s-%d", collection(d, name), name, i)
			g := m.generator
			g.wrong = pick(&g, 0, 0, 10)
			o := g.object(schema, 0)
			c := call{method: http.MethodPatch, path: path, header: http.Header{"Accept": {"application/json"}}}
			switch what := g.IntN(6); what {
			case 0:
				c = jsonCall(http.MethodDelete, path, "")
			case 1, 2:
				o["apiVersion"], o["kind"] = groupOf(d)+"/"+name, spec["names"].(map[string]any)["kind"]
				c.path += "?fieldManager=" + pick(&g, "one", "two") + pick(&g, "", "&force=true")
				c.header.Set("Content-Type", contents["apply"])
			case 3:
				c.path += "/" + pick(&g, "status", "scale")
				c.header.Set("Content-Type", contents["merge"])
			default:
				c.header.Set("Content-Type", contents["merge"])
			}
			if c.method == http.MethodPatch {
				raw, _ := json.Marshal(o)
				c.body = string(raw)
			}
			r.at = c.String() + " " + c.body[:min(len(c.body), 1000)]
			r.compare(c)
			r.pair.objects.Add(1)
		}
	}
}

// definitionMaker makes random definitions.
type definitionMaker struct {
	generator
	group string
}

func (m *definitionMaker) definition() object {
	versions := []any{}
	storage := m.IntN(2)
	for i, name := range []string{"v1", "v1beta1", "v2alpha1"}[:1+m.IntN(3)] {
		versions = append(versions, m.version(name, i == storage))
	}
	if storage >= len(versions) && !m.oneIn(8) {
		versions[0].(map[string]any)["storage"] = true
	}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "widgets." + m.group},
		"spec": object{
			"group": m.group, "scope": pick(&m.generator, "Namespaced", "Namespaced", "Cluster"), "versions": versions,
			"names": object{
				"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
				"shortNames": []any{"wd"}, "categories": pick(&m.generator, []any{}, []any{"all", "things"}),
			},
		},
	}
}

func (m *definitionMaker) version(name string, storage bool) object {
	schema := object{"type": "object", "properties": object{"spec": m.structure(0), "status": m.structure(1)}}
	if m.oneIn(8) {
		schema["x-kubernetes-preserve-unknown-fields"] = true
	}
	v := object{"name": name, "served": !m.oneIn(6), "storage": storage, "schema": object{"openAPIV3Schema": schema}}
	if m.oneIn(5) {
		v["deprecated"] = true
	}
	sub := object{}
	if m.oneIn(2) {
		sub["status"] = object{}
	}
	if m.oneIn(3) {
		sub["scale"] = object{"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.b"}
	}
	v["subresources"] = sub
	if m.oneIn(3) {
		v["selectableFields"] = []any{object{"jsonPath": ".spec." + pick(&m.generator, fieldNames...)}}
	}
	columns := []any{}
	for i := range m.IntN(4) {
		columns = append(columns, object{
			"name": fmt.Sprintf("Column %d", i), "type": pick(&m.generator, "string", "integer", "number", "boolean", "date"),
			"jsonPath": pick(&m.generator, ".spec.", ".status.", ".spec..", ".metadata.") + pick(&m.generator, fieldNames...) + pick(&m.generator, "", "", "[0]", "[*]", ".b"),
			"priority": m.IntN(2),
		})
	}
	v["additionalPrinterColumns"] = columns
	return v
}

var fieldNames = []string{"a", "b", "c", "long-name", "x.z", "kind"}

// structure makes the schema of an object, which is structural most of the time.
func (m *definitionMaker) structure(depth int) object {
	properties := object{}
	for range 1 + m.IntN(4) {
		properties[pick(&m.generator, fieldNames...)] = m.schema(depth + 1)
	}
	s := object{"type": "object", "properties": properties}
	switch m.IntN(10) {
	case 0:
		s["required"] = []any{pick(&m.generator, slices.Sorted(maps.Keys(properties))...)}
	case 1:
		s["x-kubernetes-preserve-unknown-fields"] = true
	case 2:
		s["x-kubernetes-map-type"] = "atomic"
	case 3:
		s["maxProperties"] = 2
	case 4:
		field := pick(&m.generator, slices.Sorted(maps.Keys(properties))...)
		if !strings.ContainsAny(field, "-.") {
			s["x-kubernetes-validations"] = []any{object{"rule": "has(self." + field + ")", "message": field + " is missing"}}
		}
	}
	return s
}

func (m *definitionMaker) schema(depth int) object {
	var s object
	switch what := m.IntN(12); {
	case what < 3 && depth < 4:
		s = m.structure(depth)
	case what == 3 && depth < 4:
		s = object{"type": "object", "additionalProperties": m.schema(depth + 1)}
	case what < 6 && depth < 4:
		s = m.list(depth)
	case what == 6:
		return object{"x-kubernetes-int-or-string": true}
	case what == 7:
		s = object{"type": "boolean"}
	case what == 8:
		s = object{"type": pick(&m.generator, "integer", "number"), "minimum": m.IntN(5), "maximum": 5 + m.IntN(100)}
	default:
		s = m.string()
	}
	switch m.IntN(8) {
	case 0:
		s["nullable"] = true
	case 1:
		g := m.generator
		g.full = false
		if m.oneIn(10) {
			g.wrong = 2
		}
		s["default"] = g.value(s, 1)
	case 2:
		if m.oneIn(6) {
			s[pick(&m.generator, "uniqueItems", "nullable", "exclusiveMinimum")] = true
		}
	case 3:
		if s["type"] == "string" || s["type"] == "integer" || s["type"] == "boolean" {
			s["x-kubernetes-validations"] = []any{object{"rule": pick(&m.generator, "self == oldSelf", "self != self || true", "string(self) != 'odd'")}}
		}
	}
	return s
}

func (m *definitionMaker) list(depth int) object {
	s := object{"type": "array", "maxItems": 1 + m.IntN(4)}
	switch m.IntN(3) {
	case 0:
		s["items"], s["x-kubernetes-list-type"] = m.string(), "set"
	case 1:
		item := m.structure(depth + 1)
		item["properties"].(map[string]any)["key"] = object{"type": pick(&m.generator, "string", "integer")}
		item["required"] = []any{"key"}
		s["items"], s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = item, "map", []any{"key"}
	default:
		s["items"] = m.schema(depth + 1)
	}
	return s
}

func (m *definitionMaker) string() object {
	s := object{"type": "string"}
	switch m.IntN(5) {
	case 0:
		s["enum"] = []any{"red", "green", ""}
	case 1:
		s["format"] = pick(&m.generator, slices.Sorted(maps.Keys(formats))...)
	case 2:
		s["pattern"] = pick(&m.generator, "^[a-z]+$", "^v[0-9]", "^$")
	case 3:
		s["maxLength"] = 1 + m.IntN(5)
	}
	return s
}
