package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// selectable are the selectable fields of each resource, besides name and
// namespace.
var selectable = map[string][]string{
	"pods": {
		"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "spec.host",
		"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
	},
	"nodes":                  {"spec.unschedulable"},
	"replicationcontrollers": {"status.replicas"},
	"namespaces":             {"status.phase"},
	"secrets":                {"type"},
	"services":               {"spec.clusterIP", "spec.type"},
	"events": {
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
	},
	"events.events.k8s.io": {
		"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion", "regarding.resourceVersion",
		"regarding.fieldPath", "reason", "reportingController", "type",
	},
	"replicasets.apps": {"status.replicas"},
	"jobs.batch":       {"status.successful"},
	"certificatesigningrequests.certificates.k8s.io": {"spec.signerName"},
	"clustertrustbundles.certificates.k8s.io":        {"spec.signerName"},
	"podcertificaterequests.certificates.k8s.io":     {"spec.signerName", "spec.podName", "spec.nodeName"},
	"resourceslices.resource.k8s.io":                 {"spec.nodeName", "spec.driver"},
	"widgets.example.com":                            {"spec.color"},
}

// someValues are used for any field, besides the values that objects have.
var someValues = []string{"", "0", "true", "false", "absent", "Running", "kubelet"}

func (k *kind) selectable() []string { return selectable[k.gvr.GroupResource().String()] }

// learn records the labels and the fields of an object.
func (k *kind) learn(item *unstructured.Unstructured) {
	note := func(of *map[string][]string, name, value string) {
		if *of == nil {
			*of = map[string][]string{}
		}
		if known := (*of)[name]; len(known) < 12 && !slices.Contains(known, value) {
			(*of)[name] = append(known, value)
		}
	}
	for name, value := range item.GetLabels() {
		note(&k.labels, name, value)
	}
	for _, field := range append(k.selectable(), "metadata.name", "metadata.namespace") {
		value, found, err := unstructured.NestedFieldNoCopy(item.Object, strings.Split(field, ".")...)
		if found && err == nil {
			note(&k.fields, field, fmt.Sprint(value))
		}
	}
}

// brokenLabelSelectors begins with selectors that cannot be parsed. The last
// ones are unusual, but can be parsed.
var brokenLabelSelectors = []string{
	"===", "a===b", "app in", "app in (", "app in (a", "app in a", "app in ()", "in (a)", "!", "!!app", "!app=web", "app=web,,tier=t1", ",", ",app", "app,",
	"a b", "app=web tier=t1", "-app", "app-=x", "app=-x", "app=x-", "app/=x", "/app=x", "a/b/c=x", "app=a/b", "APP=web", "app=" + strings.Repeat("x", 64), strings.Repeat("x", 64),
	"app>web", "index>1.5", "index>99999999999999999999", "app notin", "app notin (a))", "app=(web)", "app==web=", "app=\x00", "app=ü", "ü=app", "app=web;tier", "app=%", `app="web"`, "app!web", "app!==web",
	" ", "\tapp", "app=\n", "in", "notin", "in=in", "in in (in)", "app in (,)", "app in (,web)", "app in (web,web)", "app=", "app==", "app!=", "=", "!=", "==web", "app in (web) , tier", "index<5", "index>-1", "app=web,app=db", "app=web,!app",
}

// labelSelector returns a selector of labels that objects have, and sometimes
// of others.
func (gen *requestGenerator) labelSelector(k *kind, wild bool) string {
	if wild && gen.once(2) {
		return pick(gen, brokenLabelSelectors...)
	}
	var parts []string
	for range 1 + gen.IntN(gen.IntN(3)+1) {
		parts = append(parts, gen.labelRequirement(k))
	}
	return strings.Join(parts, pick(gen, ",", ",", ", ", " , "))
}

func (gen *requestGenerator) labelRequirement(k *kind) string {
	name, values := "absent", []string{"x", ""}
	if names := slices.Sorted(maps.Keys(k.labels)); len(names) > 0 && !gen.once(8) {
		name = pick(gen, names...)
		values = append(slices.Clone(k.labels[name]), "absent")
	}
	set := func() string {
		var members []string
		for range 1 + gen.IntN(4) {
			members = append(members, pick(gen, values...))
		}
		return "(" + strings.Join(members, pick(gen, ",", ", ")) + ")"
	}
	switch gen.IntN(8) {
	case 0:
		return name
	case 1:
		return "!" + name
	case 2:
		return name + " in " + set()
	case 3:
		return name + " notin " + set()
	case 4:
		return name + pick(gen, "!=", " != ") + pick(gen, values...)
	case 5:
		return fmt.Sprintf("%s%s%d", name, pick(gen, ">", "<", " > "), gen.IntN(400))
	}
	return name + pick(gen, "=", "==", " = ") + pick(gen, values...)
}

// brokenFieldSelectors begins with selectors that cannot be parsed or that name
// unknown fields. The last ones are unusual, but valid.
var brokenFieldSelectors = []string{
	"metadata.name", "=", "==", "!=", "metadata.name=a=b", "metadata.name===a", "metadata.name>a", "nothing=1", "spec.nothing=1", "metadata.labels.app=web", "metadata.uid=x",
	"metadata.name=a,nothing=1", "metadata.name in (a)", "!metadata.name", `metadata.name=a\`, `metadata.name=a\x`, "Metadata.Name=a", "metadata.name =a", " metadata.name=a", "metadata.name=a b", "status.phase=x,status=y",
	"metadata.name=a,,metadata.namespace=b", ",", ",,", `metadata.name=a\,b`, `metadata.name=a\=b`, "metadata.name=", "metadata.name!=", "metadata.namespace=", "metadata.name=a/b", "metadata.name=..", "metadata.name=%", "metadata.namespace=team-a/x", "metadata.name=a,metadata.name=b",
	"metadata.namespace=team-a,metadata.namespace=team-b", "metadata.name=" + "a\x00",
}

// fieldSelector returns a selector of fields that the kind has.
func (gen *requestGenerator) fieldSelector(k *kind, wild bool) string {
	if wild && gen.once(2) {
		return pick(gen, brokenFieldSelectors...)
	}
	names := append([]string{"metadata.name"}, k.selectable()...)
	if k.namespaced {
		names = append(names, "metadata.namespace")
	}
	var parts []string
	for range 1 + gen.IntN(gen.IntN(3)+1) {
		name := pick(gen, names...)
		values := append(slices.Clone(k.fields[name]), pick(gen, someValues...))
		parts = append(parts, name+pick(gen, "=", "=", "==", "!=")+pick(gen, values...))
	}
	return strings.Join(parts, ",")
}

func (gen *requestGenerator) selectors(q query, k *kind, wild bool) query {
	if gen.once(2) {
		q = q.with("labelSelector", gen.labelSelector(k, wild))
	}
	if gen.once(3) {
		q = q.with("fieldSelector", gen.fieldSelector(k, wild))
	}
	if gen.once(4) {
		q = q.with("shardSelector", gen.shardSelector(wild))
	}
	return q
}

// everySelector returns lists of each kind by each of its fields, and by the
// fields that all kinds have.
func everySelector(kinds []*kind, now int64) []request {
	var all []request
	for _, k := range kinds {
		fields := append([]string{"metadata.name", "metadata.namespace"}, k.selectable()...)
		paths := []string{k.listPath("")}
		if k.namespaced {
			paths = append(paths, k.listPath(namespaces[0]))
		}
		for i, field := range fields {
			known := append(slices.Clone(k.fields[field]), "absent")
			for j, selector := range []string{field + "=" + known[0], field + "!=" + known[0], field + "==" + known[len(known)-1], field + "="} {
				path := paths[(i+j)%len(paths)]
				q := query{{"fieldSelector", selector}}
				for n, way := range []query{q, q.with("limit", "2"), q.with("resourceVersion", "0"), q.with("resourceVersion", fmt.Sprint(now)).with("resourceVersionMatch", "Exact")} {
					// All kinds share the code that selects by name and
					// namespace.
					if i > 1 || n == (i+j)%4 {
						all = append(all, request{path: path, query: way.String(), listPath: k.listPath(""), accept: []string{"", kubectlGet, protobuf}[(j+n)%3]})
					}
				}
			}
		}
		for name, values := range k.labels {
			q := query{{"labelSelector", name + "=" + values[0]}}
			all = append(all, request{path: paths[0], query: q.String(), listPath: k.listPath(""), accept: protobuf})
		}
	}
	return all
}
