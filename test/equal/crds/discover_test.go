package crds

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groupVersions has the definitions of each group and version that they name, served or not.
type groupVersions map[string]map[string][]*apiextensionsv1.CustomResourceDefinition

// definitions returns the definitions that this run made, as the stock server has them.
func (r *run) definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := r.pair.sides[1].get(definitionsPath, "application/json")
	if err != nil {
		return nil, err
	}
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for i := range list.Items {
		if d := &list.Items[i]; r.defined[d.Name] != "" {
			all = append(all, d)
		}
	}
	return all, nil
}

// expected returns the versions of this run's groups, with the definitions that discovery
// must show in each.
func (r *run) expected() (groupVersions, error) {
	all, err := r.definitions()
	if err != nil {
		return nil, err
	}
	want := groupVersions{r.group: {}}
	for _, d := range all {
		if want[d.Spec.Group] == nil {
			want[d.Spec.Group] = map[string][]*apiextensionsv1.CustomResourceDefinition{}
		}
		for _, v := range d.Spec.Versions {
			shown := want[d.Spec.Group][v.Name]
			if v.Served && established(d) {
				shown = append(shown, d)
			}
			want[d.Spec.Group][v.Name] = shown
		}
	}
	return want, nil
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// discovery compares the documents of this run's groups, once they show all definitions.
func (r *run) discovery(*step) {
	want, err := r.expected()
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	for _, group := range slices.Sorted(maps.Keys(want)) {
		for _, version := range slices.Sorted(maps.Keys(want[group])) {
			r.discoverVersion(group, version, want[group][version])
		}
		r.compareWhenReady("/apis/"+group, "application/json", func([]byte) error { return nil })
		r.aggregated(group)
	}
}

func (r *run) discoverVersion(group, version string, shown []*apiextensionsv1.CustomResourceDefinition) {
	r.compareWhenReady("/apis/"+group+"/"+version, "application/json", func(body []byte) error {
		var list metav1.APIResourceList
		// A 404 is not JSON, and shows nothing.
		_ = json.Unmarshal(body, &list)
		var has, want []string
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") {
				has = append(has, fmt.Sprint(resource.Name, resource.SingularName, resource.Kind, resource.ShortNames, resource.Categories))
			}
		}
		for _, d := range shown {
			n := d.Status.AcceptedNames
			want = append(want, fmt.Sprint(n.Plural, n.Singular, n.Kind, n.ShortNames, n.Categories))
		}
		slices.Sort(has)
		slices.Sort(want)
		if !slices.Equal(has, want) {
			return fmt.Errorf("/apis/%s/%s shows %v, want %v", group, version, has, want)
		}
		return nil
	})
}

// compareWhenReady compares a document of discovery, whatever its status, once ready returns
// nil for both sides.
func (r *run) compareWhenReady(path, accept string, ready func(body []byte) error) {
	c := call{method: http.MethodGet, path: path, header: http.Header{"Accept": {accept}}}
	r.eventually(func() (string, error) {
		var answers [2]*answer
		err := r.pair.both(func(i int, side *side) (err error) {
			if answers[i], err = side.do(c); err != nil {
				return err
			}
			if err := ready(answers[i].body); err != nil {
				return err
			}
			answers[i].body = inOrder(answers[i].body)
			return nil
		})
		if err != nil {
			return "", err
		}
		r.pair.requests.Add(1)
		return r.normalisers.fork().difference(answers, scope{}), nil
	})
}

// inOrder sorts the resources of a version. The stock server lists them in the order of a
// map.
func inOrder(body []byte) []byte {
	var list map[string]json.RawMessage
	var resources []json.RawMessage
	if json.Unmarshal(body, &list) != nil || json.Unmarshal(list["resources"], &resources) != nil {
		return body
	}
	slices.SortFunc(resources, func(a, b json.RawMessage) int { return strings.Compare(name(a), name(b)) })
	list["resources"], _ = json.Marshal(resources)
	sorted, err := json.Marshal(list)
	if err != nil {
		return body
	}
	return append(sorted, '\n')
}

func name(raw json.RawMessage) string {
	var named struct{ Name string }
	_ = json.Unmarshal(raw, &named)
	return named.Name
}

// aggregated compares one group in the aggregated document.
func (r *run) aggregated(group string) {
	r.eventually(func() (string, error) {
		var shown [2]string
		err := r.pair.both(func(i int, side *side) error {
			body, err := side.get("/apis", accepts["aggregated"])
			if err != nil {
				return err
			}
			all, err := parse(body)
			if err != nil {
				return err
			}
			for _, g := range all[0].member("items").items {
				if g.at("metadata", "name").text() == group {
					r.normalisers[i].fork().object(g, scope{})
					shown[i] = g.String()
				}
			}
			return nil
		})
		r.pair.requests.Add(1)
		return textDifference(shown), err
	})
}

// openAPI compares the OpenAPI documents of all versions of this run's groups, once they show
// the marks of their definitions.
func (r *run) openAPI(*step) {
	want, err := r.expected()
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	for _, group := range slices.Sorted(maps.Keys(want)) {
		for _, version := range slices.Sorted(maps.Keys(want[group])) {
			// The stock server keeps the last document of a version that is no longer served
			// until its definitions are deleted, or until it is restarted.
			if len(want[group][version]) == 0 {
				continue
			}
			r.document("/openapi/v3/apis/"+group+"/"+version, marks(want[group][version], version))
		}
	}
}

// marks returns the marks in the schemas of a version.
func marks(shown []*apiextensionsv1.CustomResourceDefinition, version string) []string {
	var all []string
	for _, d := range shown {
		for _, v := range d.Spec.Versions {
			if v.Name == version && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil && strings.HasPrefix(v.Schema.OpenAPIV3Schema.Description, "rev-") {
				all = append(all, `"`+v.Schema.OpenAPIV3Schema.Description+`"`)
			}
		}
	}
	return all
}

// document compares a document of OpenAPI as canonical JSON, once it shows some marks.
func (r *run) document(path string, marks []string) {
	c := call{method: http.MethodGet, path: path, header: http.Header{"Accept": {"application/json"}}}
	r.eventually(func() (string, error) {
		var shown [2]string
		err := r.pair.both(func(i int, side *side) error {
			a, err := side.do(c)
			if err != nil {
				return err
			}
			for _, mark := range marks {
				if !strings.Contains(string(a.body), mark) {
					return fmt.Errorf("%s does not show %s yet: %d %.200s", path, mark, a.status, a.body)
				}
			}
			shown[i], err = canonical(a)
			return err
		})
		r.pair.requests.Add(1)
		return textDifference(shown), err
	})
}

func canonical(a *answer) (string, error) {
	all, err := parse(a.body)
	if err != nil || len(all) != 1 {
		return fmt.Sprintf("%d %s\n%s", a.status, a.header.Get("Content-Type"), a.body), nil
	}
	return fmt.Sprintf("%d %s\n%s", a.status, a.header.Get("Content-Type"), all[0].sorted()), nil
}

// index compares the names of all documents of OpenAPI v3. Those of versions that are no
// longer served are left out, because the stock server keeps them. Digests are not
// compared, because only the canonical JSON of documents has to be the same.
func (r *run) index() {
	r.eventually(func() (string, error) {
		var shown [2]string
		err := r.pair.both(func(i int, side *side) error {
			var groups metav1.APIGroupList
			var list struct{ Paths map[string]any }
			for path, into := range map[string]any{"/apis": &groups, "/openapi/v3": &list} {
				body, err := side.get(path, "application/json")
				if err != nil {
					return err
				}
				if err := json.Unmarshal(body, into); err != nil {
					return err
				}
			}
			served := map[string]bool{}
			for _, g := range groups.Groups {
				for _, v := range g.Versions {
					served["apis/"+v.GroupVersion] = true
				}
			}
			maps.DeleteFunc(list.Paths, func(path string, _ any) bool { return strings.Count(path, "/") == 2 && !served[path] })
			shown[i] = strings.Join(slices.Sorted(maps.Keys(list.Paths)), "\n")
			return nil
		})
		r.pair.requests.Add(1)
		return textDifference(shown), err
	})
}

// withoutDocuments waits until neither side lists an OpenAPI v3 document of this run's groups,
// whose definitions are deleted.
func (r *run) withoutDocuments() {
	r.eventually(func() (string, error) {
		return "", r.pair.both(func(_ int, side *side) error {
			body, err := side.get("/openapi/v3", "application/json")
			for _, group := range r.defined {
				if err == nil && strings.Contains(string(body), `"apis/`+group+`/`) {
					err = fmt.Errorf("/openapi/v3 still lists %s", group)
				}
			}
			return err
		})
	})
}

// until waits until the answers of both sides have a status, and compares them:
// > until PATH => status.
func (r *run) until(s *step) {
	get := *s
	get.verb, get.options = http.MethodGet, maps.Clone(s.options)
	r.eventually(func() (string, error) { return r.request(&get, true) })
}
