package crds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/millrace/millrace/test/support/harness"
)

type object = map[string]any

// definition makes the definition of a step. The step's first word is the plural name, and
// its body is merged into a definition that works. The body has members of spec, and may
// have "schema" and "version", which change the first version, and "metadata".
func (r *run) definition(i int, s *step) (object, error) {
	var body object
	if err := yaml.Unmarshal([]byte(r.fill(i, s.body)), &body); err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	plural := s.word(0)
	singular := strings.TrimSuffix(plural, "s")
	kind := strings.ToUpper(singular[:1]) + singular[1:]
	group := r.group
	if g, ok := body["group"].(string); ok {
		group = g
	}
	version := object{
		"name": "v1", "served": true, "storage": true,
		"schema": object{"openAPIV3Schema": object{"type": "object", "properties": object{"spec": object{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		}}}},
	}
	if schema, ok := body["schema"]; ok {
		version["schema"] = object{"openAPIV3Schema": schema}
	}
	change, _ := body["version"].(map[string]any)
	merge(version, change)
	d := object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": plural + "." + group},
		"spec": object{
			"group": group, "scope": "Namespaced", "versions": []any{version},
			"names": object{"plural": plural, "singular": singular, "kind": kind, "listKind": kind + "List"},
		},
	}
	metadata, _ := body["metadata"].(map[string]any)
	for _, name := range []string{"schema", "version", "metadata"} {
		delete(body, name)
	}
	merge(d["metadata"].(map[string]any), metadata)
	merge(d["spec"].(map[string]any), body)
	return d, nil
}

// merge applies a merge patch.
func merge(into object, patch object) {
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		old, hasObject := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isObject && hasObject:
			merge(old, inner)
		default:
			into[name] = value
		}
	}
}

// mark marks a definition, so that documents show which revision of it they are made of. It
// adds a column to each version, which tables of objects show, and a description, which
// OpenAPI shows.
func (r *run) mark(d object, s *step) string {
	r.revision++
	name := fmt.Sprintf("rev-%s-%d", r.group, r.revision)
	if _, ok := s.options["unmarked"]; ok {
		return ""
	}
	markVersions(d, name)
	return name
}

func markVersions(d object, name string) {
	spec, _ := d["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok {
			continue
		}
		columns, _ := version["additionalPrinterColumns"].([]any)
		version["additionalPrinterColumns"] = append(slices.Clone(columns), object{
			"name": name, "type": "string", "jsonPath": ".metadata.name", "priority": 1,
		})
		outer, _ := version["schema"].(map[string]any)
		schema, ok := outer["openAPIV3Schema"].(map[string]any)
		if ok && schema["description"] == nil {
			schema["description"] = name
		}
	}
}

// define creates a definition on both sides. It waits until the definition is served, or has
// the conditions of the option "until", such as "NamesAccepted=False".
func (r *run) define(s *step) {
	calls, mark := r.markedCalls(s)
	s.status, s.fixed = http.StatusCreated, true
	r.report(r.ask(calls, s, false))
	r.pair.definitions.Add(1)
	r.awaitDefinition(s, calls[0], mark)
}

// markedCalls returns the calls that create a step's definition, and its mark.
func (r *run) markedCalls(s *step) (calls [2]call, mark string) {
	calls, err := r.definitionCalls(s, func(i int, d object) {
		r.defined[nameOf(d)] = groupOf(d)
		if i == 0 {
			mark = r.mark(d, s)
		} else if mark != "" {
			markVersions(d, mark)
		}
	})
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	return calls, mark
}

func (r *run) definitionCalls(s *step, change func(i int, d object)) ([2]call, error) {
	var calls [2]call
	for i := range calls {
		d, err := r.definition(i, s)
		if err != nil {
			return calls, err
		}
		change(i, d)
		raw, err := json.Marshal(d)
		if err != nil {
			return calls, err
		}
		calls[i] = jsonCall(http.MethodPost, definitionsPath, string(raw))
	}
	return calls, nil
}

func nameOf(d object) string {
	m, _ := d["metadata"].(map[string]any)
	name, _ := m["name"].(string)
	return name
}

func groupOf(d object) string {
	m, _ := d["spec"].(map[string]any)
	group, _ := m["group"].(string)
	return group
}

// redefine replaces a definition by another one. Only the resource version stays.
func (r *run) redefine(s *step) {
	calls, mark := r.markedCalls(s)
	if s.status == 0 {
		s.status = http.StatusOK
	}
	r.eventually(func() (string, error) {
		for i, side := range r.pair.sides {
			if err := update(side, &calls[i]); err != nil {
				return "", err
			}
		}
		var answers [2]*answer
		err := r.pair.both(func(i int, side *side) (err error) {
			answers[i], err = side.do(calls[i])
			// A controller has written meanwhile.
			if err == nil && answers[i].status == http.StatusConflict {
				err = harness.ErrNotYet
			}
			return err
		})
		if err != nil {
			return "", err
		}
		r.pair.requests.Add(1)
		r.trace(calls[1], answers[1])
		mismatch := r.normalisers.difference(answers, scope{definitions: true})
		if answers[1].status != s.status {
			mismatch += fmt.Sprintf("  the stock server answers %d, not %d: %.600s\n", answers[1].status, s.status, answers[1].body)
		}
		r.report(mismatch, nil)
		return "", nil
	})
	if s.status != http.StatusOK {
		return
	}
	r.awaitDefinition(s, calls[0], mark)
}

// update turns the call that creates a definition into one that updates it.
func update(side *side, c *call) error {
	var d object
	if err := json.Unmarshal([]byte(c.body), &d); err != nil {
		return err
	}
	path := definitionsPath + "/" + nameOf(d)
	current, err := side.get(path, "application/json")
	if err != nil {
		return err
	}
	var stored apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(current, &stored); err != nil {
		return err
	}
	d["metadata"].(map[string]any)["resourceVersion"] = stored.ResourceVersion
	raw, err := json.Marshal(d)
	*c = jsonCall(http.MethodPut, path, string(raw))
	return err
}

// try creates a definition as a dry run. With the second word "update", it updates the
// definition of that name as a dry run.
func (r *run) try(s *step) {
	calls, err := r.definitionCalls(s, func(int, object) {})
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	for i := range calls {
		if s.word(1) == "update" {
			if err := update(r.pair.sides[i], &calls[i]); err != nil {
				r.fatalf("%s: %v", r.at, err)
			}
		}
		calls[i].path += "?dryRun=All"
	}
	r.report(r.ask(calls, s, false))
}

// settleStep waits for conditions of a definition: > settle NAME TYPE=STATUS…
func (r *run) settleStep(s *step) {
	s.options["until"] = strings.Join(s.words[1:], " ")
	name := s.word(0)
	if !strings.Contains(name, ".") {
		name += "." + r.group
	}
	r.awaitConditions(name, strings.Fields(s.options["until"]))
}

// awaitDefinition waits until a definition has its conditions, and compares it. If it is
// established, awaitDefinition waits until it is served as well.
func (r *run) awaitDefinition(s *step, c call, mark string) {
	var d apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal([]byte(c.body), &d); err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	want := []string{"Established=True", "NamesAccepted=True"}
	until, ok := s.options["until"]
	if ok {
		want = strings.Fields(until)
	}
	r.awaitConditions(d.Name, want)
	if slices.Contains(want, "Established=True") {
		r.awaitServed(&d, mark)
	}
}

func (r *run) awaitConditions(name string, want []string) {
	c := jsonCall(http.MethodGet, definitionsPath+"/"+name, "")
	r.eventually(func() (string, error) {
		normalisers := r.normalisers.fork()
		var answers [2]*answer
		err := r.pair.both(func(i int, side *side) (err error) {
			if answers[i], err = side.do(c); err != nil {
				return err
			}
			return hasConditions(answers[i].body, want)
		})
		if err != nil {
			return "", err
		}
		mismatch := normalisers.difference(answers, scope{definitions: true})
		if mismatch == "" {
			r.normalisers = normalisers
			r.pair.requests.Add(1)
			r.capture(answers, "")
			r.trace(c, answers[1])
		}
		return mismatch, nil
	})
}

// hasConditions returns an error unless a definition has all conditions that want gives as
// "Type=Status", and none that want gives as "-Type".
func hasConditions(body []byte, want []string) error {
	var d apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(body, &d); err != nil {
		return err
	}
	has := map[string]bool{}
	for _, c := range d.Status.Conditions {
		has[string(c.Type)+"="+string(c.Status)] = true
		has[string(c.Type)] = true
	}
	for _, w := range want {
		if missing, ok := strings.CutPrefix(w, "-"); ok && has[missing] || !ok && !has[w] {
			return fmt.Errorf("conditions of %s are %v, want %s", d.Name, d.Status.Conditions, w)
		}
	}
	return nil
}

// awaitServed waits until both sides serve the versions of a definition, with its mark.
func (r *run) awaitServed(d *apiextensionsv1.CustomResourceDefinition, mark string) {
	r.eventually(func() (string, error) {
		return "", r.pair.both(func(_ int, side *side) error {
			for _, v := range d.Spec.Versions {
				path := "/apis/" + d.Spec.Group + "/" + v.Name + "/" + d.Spec.Names.Plural + "?limit=1&resourceVersion=0"
				if !v.Served {
					continue
				}
				table, err := side.get(path, accepts["table"])
				if err != nil {
					return err
				}
				if mark != "" && !bytes.Contains(table, []byte(`"`+mark+`"`)) {
					return fmt.Errorf("get %s: not yet %s: %.300s", path, mark, table)
				}
			}
			return nil
		})
	})
}

// undefine deletes a definition, and waits until it is gone.
func (r *run) undefine(s *step) {
	name := s.word(0)
	if !strings.Contains(name, ".") {
		name += "." + r.group
	}
	c := jsonCall(http.MethodDelete, definitionsPath+"/"+name, "")
	r.report(r.ask([2]call{c, c}, &step{status: http.StatusOK, fixed: true, options: s.options}, false))
	if _, ok := s.options["unwaited"]; ok {
		return
	}
	r.awaitGone(name)
}

// awaitGone waits until neither side has a definition any longer.
func (r *run) awaitGone(name string) {
	c := jsonCall(http.MethodGet, definitionsPath+"/"+name, "")
	r.eventually(func() (string, error) {
		return r.ask([2]call{c, c}, &step{status: http.StatusNotFound}, true)
	})
	delete(r.defined, name)
}
