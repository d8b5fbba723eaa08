package crds

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/test/support/shipped"
)

// shippedDefinitions reads the definitions of a module, in order of their files.
func shippedDefinitions(t *testing.T, name string) []object {
	t.Helper()
	var all []object
	for _, document := range shipped.Modules[name].Documents(t, "definitions") {
		var d object
		if err := yaml.Unmarshal(document, &d); err != nil {
			t.Fatalf("read a document of %s: %v", name, err)
		}
		if d["kind"] == "CustomResourceDefinition" {
			delete(d, "status")
			all = append(all, d)
		}
	}
	return all
}

// objectsPerKind is the number of objects that are made of each kind and version: one with
// required fields alone, a full one, and wrong ones.
const objectsPerKind = 4

// shipped installs the definitions of a module, and makes objects of all kinds.
func (r *run) shipped(t *testing.T, name string) {
	definitions := r.sample(shippedDefinitions(t, name))
	r.ignoreErrorOrder()
	for _, d := range definitions {
		r.install(d)
	}
	r.at = name + ": discovery"
	r.discovery(nil)
	r.at = name + ": OpenAPI"
	r.openAPI(nil)
	for _, d := range definitions {
		r.objects(d, objectsPerKind)
	}
	r.at = name + ": stored"
	r.compareStored(nil)
}

// shippedSampleSize is the number of a module's definitions that a short run installs. The
// stock server builds OpenAPI anew after each.
const shippedSampleSize = 2

// maxSampledBytes bounds the JSON of such a definition.
const maxSampledBytes = 200 << 10

// sample picks some definitions by the seed. It returns all of them in a long run, for which
// the number of random definitions is set.
func (r *run) sample(all []object) []object {
	if os.Getenv(seedsVariable) != "" {
		return all
	}
	random := rand.New(rand.NewPCG(r.pair.seed, uint64(len(all))))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var some []object
	for _, d := range all {
		if raw, err := json.Marshal(d); err == nil && len(raw) <= maxSampledBytes && len(some) < shippedSampleSize {
			some = append(some, d)
		}
	}
	return some
}

// ignoreErrorOrder must be called if objects have several errors at a time.
func (r *run) ignoreErrorOrder() {
	r.normalisers[0].ignoreErrorOrder, r.normalisers[1].ignoreErrorOrder = true, true
}

// install creates a definition on both sides, and reports whether it is served. If it is
// refused, the answers are compared.
func (r *run) install(d object) bool {
	r.at = "install " + nameOf(d)
	mark := r.mark(d, &step{})
	raw, err := json.Marshal(d)
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	c := jsonCall(http.MethodPost, definitionsPath, string(raw))
	s := &step{}
	r.report(r.ask([2]call{c, c}, s, false))
	if s.theirStatus != http.StatusCreated {
		return false
	}
	r.defined[nameOf(d)] = groupOf(d)
	r.pair.definitions.Add(1)
	r.awaitDefinition(&step{}, c, mark)
	return true
}

// objects creates random objects of all versions of a definition.
func (r *run) objects(d object, count int) {
	spec := d["spec"].(map[string]any)
	h := fnv.New64a()
	_, _ = h.Write([]byte(nameOf(d)))
	random := rand.New(rand.NewPCG(r.pair.seed, h.Sum64()))
	for _, v := range spec["versions"].([]any) {
		version := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		outer, _ := version["schema"].(map[string]any)
		schema, _ := outer["openAPIV3Schema"].(map[string]any)
		path := collection(d, version["name"].(string))
		for i := range count {
			g := &generator{Rand: random, full: i > 0}
			if i > 1 {
				g.wrong = 8 * i
			}
			o := g.object(schema, 0)
			o["apiVersion"], o["kind"] = groupOf(d)+"/"+version["name"].(string), spec["names"].(map[string]any)["kind"]
			o["metadata"] = object{"name": fmt.Sprintf("%s-%d", version["name"], i)}
			r.post(path, o)
		}
		r.read(path)
	}
}

// collection returns the path of the objects of a version.
func collection(d object, version string) string {
	spec := d["spec"].(map[string]any)
	plural := spec["names"].(map[string]any)["plural"].(string)
	if spec["scope"] == "Namespaced" {
		plural = "namespaces/default/" + plural
	}
	return "/apis/" + groupOf(d) + "/" + version + "/" + plural
}

func (r *run) post(path string, o object) {
	raw, err := json.Marshal(o)
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	r.at = "POST " + path + " " + string(raw[:min(len(raw), 1000)])
	r.compare(jsonCall(http.MethodPost, path, string(raw)))
	r.pair.objects.Add(1)
}

// compare sends one request to both sides.
func (r *run) compare(c call) int {
	s := &step{}
	r.report(r.ask([2]call{c, c}, s, false))
	return s.theirStatus
}

// read compares LISTs in several forms.
func (r *run) read(path string) {
	for _, accept := range []string{"json", "table", "partials"} {
		r.at = "GET " + path + " as " + accept
		r.compare(call{method: http.MethodGet, path: path, header: http.Header{"Accept": {accepts[accept]}}})
	}
}
