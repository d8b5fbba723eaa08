package storage

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/storedjson"
)

// VerbatimFields are the selectable fields that are read out of an object's JSON, besides
// name and namespace. Each is named by the path of a text in the JSON, and absent means
// empty. The values say what kind of value stands there.
type VerbatimFields map[string]verbatimValue

// verbatimValue is how a selectable field is read out of JSON.
type verbatimValue int

const (
	// textValue is a text, "" if it is absent.
	textValue verbatimValue = iota
	// boolValue is true or false, false if it is absent.
	boolValue
)

// verbatimFields are the fields of each resource whose meaning does not depend on the
// version of the server that sends the object: the field that is selected by is the field
// that is sent, in the one version that the resource has. Kubernetes' API promises not to
// change the meaning of either. A field that was not always selectable is left out, because
// an older server refuses it.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/pod.ToSelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/registry/core/node.NodeToSelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/registry/core/event.ToSelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/registry/core/secret.SelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/registry/core/namespace.NamespaceToSelectableFields; compare at each upgrade.
var verbatimFields = map[schema.GroupResource]VerbatimFields{
	{Resource: "pods"}: {
		"spec.nodeName": textValue, "spec.restartPolicy": textValue, "spec.schedulerName": textValue, "spec.serviceAccountName": textValue,
		"status.phase": textValue, "status.podIP": textValue, "status.nominatedNodeName": textValue,
	},
	{Resource: "nodes"}:   {"spec.unschedulable": boolValue},
	{Resource: "secrets"}: {"type": textValue},
	{Resource: "events"}: {
		"involvedObject.kind": textValue, "involvedObject.namespace": textValue, "involvedObject.name": textValue,
		"involvedObject.uid": textValue, "involvedObject.apiVersion": textValue, "involvedObject.resourceVersion": textValue,
		"involvedObject.fieldPath": textValue, "reason": textValue, "reportingComponent": textValue, "type": textValue,
	},
	{Resource: "namespaces"}: {"status.phase": textValue},
}

// cover reports whether a selector has no other fields, but for name and namespace.
func (v VerbatimFields) cover(selector fields.Selector) bool {
	for _, r := range selector.Requirements() {
		if _, ok := v[r.Field]; !ok && r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return false
		}
	}
	return true
}

var errNotVerbatim = errors.New("the object is not written as an API server writes it")

// describeVerbatim reads the attributes of an object as an API server sends it. It fails for
// an object that cannot be sent on as it is, which is passed on then.
func (d describer) describeVerbatim(e *resource.Entry, wanted VerbatimFields) error {
	sent, ok := storedjson.ReadSentObject(e.Value)
	if !ok || sent.Revision() != e.Revision {
		return fmt.Errorf("%w: %s at revision %d", errNotVerbatim, e.Key, e.Revision)
	}
	scan := resource.Scan{Fields: wanted.defaults()}
	l := storedjson.NewLexer(e.Value)
	for ok := l.BeginObject(); ok; ok = l.NextField() {
		if name := string(l.Name()); name == "metadata" {
			scanCanonicalMetadata(&l, &scan)
		} else {
			wanted.scan(&l, name, scan.Fields)
		}
	}
	if !l.Done() {
		return fmt.Errorf("%w: %s", errNotVerbatim, e.Key)
	}
	if scan.Labels == nil {
		scan.Labels = labels.Set{}
	}
	d.describe(e, scan)
	return nil
}

// defaults are the fields of an object that has none of them.
func (v VerbatimFields) defaults() fields.Set {
	set := make(fields.Set, len(v))
	for path, kind := range v {
		if set[path] = ""; kind == boolValue {
			set[path] = "false"
		}
	}
	return set
}

// scan reads the value of a field at a path, and the wanted fields in it.
func (v VerbatimFields) scan(l *storedjson.Lexer, path string, into fields.Set) {
	kind, wanted := v[path]
	switch {
	case wanted && kind == boolValue:
		isTrue := l.Word("true")
		l.RefuseIf(!isTrue && !l.Word("false"))
		if isTrue {
			into[path] = "true"
		}
	case wanted:
		text, ok := storedjson.Unquote(l.Quoted())
		l.RefuseIf(!ok)
		into[path] = text
	case l.Peek() == '{' && v.reaches(path):
		for ok := l.BeginObject(); ok; ok = l.NextField() {
			v.scan(l, path+"."+string(l.Name()), into)
		}
	default:
		l.Value()
	}
}

// reaches reports whether a wanted field lies in the object at a path.
func (v VerbatimFields) reaches(path string) bool {
	for field := range v {
		if rest, ok := strings.CutPrefix(field, path); ok && rest != "" && rest[0] == '.' {
			return true
		}
	}
	return false
}
