package storage

import (
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/wire/entry"
)

// sentPod is a pod as an API server sends it, with a field that this version does not know.
const sentPod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"n","uid":"1-2","resourceVersion":"7","labels":{"app":"web","q":"a\u003cb"}},` +
	`"spec":{"future":{"nodeName":"no"},"containers":[{"name":"c","nodeName":"no"}],"restartPolicy":"Always","nodeName":"node-1","schedulerName":"default-scheduler"},` +
	`"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`

// TestDescribeVerbatim reads labels and selectable fields out of the JSON of another server.
func TestDescribeVerbatim(t *testing.T) {
	t.Parallel()
	pods := &Verbatim{fields: verbatimFields[schema.GroupResource{Resource: "pods"}]}
	e := &entry.Entry{Key: "n/p", Revision: 7, Value: []byte(sentPod)}
	if err := newDescriber().describeVerbatim(e, pods); err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]bool{
		"spec.nodeName=node-1": true, "spec.nodeName!=node-1": false, "spec.nodeName=no": false, "status.phase=Running,spec.restartPolicy=Always": true,
		"status.podIP=10.0.0.1": true, "status.nominatedNodeName=": true, "spec.serviceAccountName!=": false, "metadata.name=p,metadata.namespace=n": true,
	} {
		parsed := fields.ParseSelectorOrDie(selector)
		if got := e.Matches(labels.Everything(), parsed); got != want {
			t.Errorf("%s selects the pod: %v", selector, got)
		}
		if !pods.covers(parsed) {
			t.Errorf("%s is not covered", selector)
		}
	}
	if l, err := labels.Parse("app=web,absent!=x"); err != nil || !e.Matches(l, nil) {
		t.Errorf("labels do not select the pod (%v)", err)
	}
	for _, selector := range []string{"spec.hostNetwork=false", "spec.nodeName=a,spec.other=b"} {
		if pods.covers(fields.ParseSelectorOrDie(selector)) {
			t.Errorf("%s is covered", selector)
		}
	}
	if (&Verbatim{}).covers(fields.ParseSelectorOrDie("spec.nodeName=a")) {
		t.Error("a resource without fields has one")
	}
	nodes := &Verbatim{fields: verbatimFields[schema.GroupResource{Resource: "nodes"}]}
	for text, unschedulable := range map[string]string{`{}`: "false", `{"unschedulable":true}`: "true", `{"taints":[],"unschedulable":false}`: "false"} {
		e := &entry.Entry{Key: "n", Revision: 7, Value: []byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"7"},"spec":` + text + `}`)}
		if err := newDescriber().describeVerbatim(e, nodes); err != nil || !e.Matches(nil, fields.OneTermEqualSelector("spec.unschedulable", unschedulable)) {
			t.Errorf("%s is not %s (%v)", text, unschedulable, err)
		}
	}
}

// TestDescribeVerbatimRefuses marks objects that cannot be sent on as they are.
func TestDescribeVerbatimRefuses(t *testing.T) {
	t.Parallel()
	pods := &Verbatim{fields: verbatimFields[schema.GroupResource{Resource: "pods"}]}
	for name, text := range map[string]string{
		"another revision": `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"8"}}`,
		"indented":         "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"resourceVersion\":\"7\"},\n  \"spec\": {}}",
		"another order":    `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","resourceVersion":"7"}}`,
		"another type":     `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"7"},"spec":{"nodeName":{}}}`,
		"labels twice":     `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"7","labels":{},"labels":{}}}`,
		"more text":        `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"7"}}{}`,
	} {
		e := &entry.Entry{Key: "n/p", Revision: 7, Value: []byte(text)}
		if err := newDescriber().describeVerbatim(e, pods); err == nil {
			t.Errorf("%s: the object is described", name)
		}
	}
}
