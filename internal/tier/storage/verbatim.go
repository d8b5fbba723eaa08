package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/sentobject"
	"github.com/millrace/millrace/internal/wire/storedjson"
)

// Verbatim says how a cache has the objects of a resource that an API server of another
// version has sent.
type Verbatim struct {
	// Format is how they are written.
	Format sentobject.Format
	// fields are the selectable fields that are read, besides name and namespace. Attributes
	// do not answer selectors of other fields.
	fields fieldPaths
	// scan reads the attributes of protobuf. It is nil for JSON, and for kinds without fields.
	scan func(value []byte) (entry.Scan, bool)
}

// fieldPaths are selectable fields. Each is named by its path in the JSON.
type fieldPaths map[string]fieldValue

// fieldValue is what stands in JSON at the path of a selectable field.
type fieldValue int

const (
	// textValue is a text. It is "" if the field is absent.
	textValue fieldValue = iota
	// boolValue is true or false. It is false if the field is absent.
	boolValue
)

// verbatimFields are the fields of each resource whose meaning does not depend on the version
// of the server that sends the object. Each is selected as it is sent, in the one version that
// the resource has. Kubernetes' API promises not to change the meaning of the field or of its
// selector. A field that was not always selectable is left out, because an older server
// refuses its selector.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/pod.ToSelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/registry/core/node.NodeToSelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/registry/core/event.ToSelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/registry/core/secret.SelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/registry/core/namespace.NamespaceToSelectableFields; compare at each upgrade.
var verbatimFields = map[schema.GroupResource]fieldPaths{
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

// decorateVerbatim makes the stores of a resource whose objects another server has sent: one
// of JSON, and one of protobuf if the kind has that.
func (d *Decorator) decorateVerbatim(cfg Config, gr schema.GroupResource, transformer value.Transformer) (storage.Interface, factory.DestroyFunc, error) {
	cfg.Verbatim = &Verbatim{fields: verbatimFields[gr]}
	s := d.newStore(cfg, gr, transformer)
	d.addStore(gr, s)
	release := s.release
	if backend := d.Protobuf(gr); backend != nil {
		cfg.Cache, cfg.Consistent, cfg.Prover = backend.Cache, backend.Consistent, backend.Prover
		cfg.Verbatim = &Verbatim{Format: sentobject.Protobuf}
		// A scanner refuses objects that decoding would change, and here nothing is decoded. So
		// kinds without selectable fields have no scanner.
		if selectable := verbatimFields[gr]; selectable != nil && d.Scan != nil {
			if scan := d.Scan(gr, cfg.New(), hasOnlyMetadata(cfg.Attributes)); scan != nil {
				cfg.Verbatim.fields, cfg.Verbatim.scan = selectable, scan
			}
		}
		protobuf := d.newStore(cfg, gr, transformer)
		d.addProtobufStore(gr, protobuf)
		release = func() { s.release(); protobuf.release() }
	}
	return s, sync.OnceFunc(release), nil
}

func (d *Decorator) addProtobufStore(gr schema.GroupResource, s *Store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.protobuf == nil {
		d.mu.protobuf = map[schema.GroupResource]*Store{}
	}
	d.mu.protobuf[gr] = s
}

// ProtobufStore returns the store of a built-in kind in protobuf. Store returns the one in
// JSON. It is nil unless Verbatim is set and the kind has protobuf.
func (d *Decorator) ProtobufStore(gr schema.GroupResource) *Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.protobuf[gr]
}

// covers reports whether a selector has no fields but v.fields, name and namespace.
func (v *Verbatim) covers(selector fields.Selector) bool {
	for _, r := range selector.Requirements() {
		if _, ok := v.fields[r.Field]; !ok && r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return false
		}
	}
	return true
}

var errNotVerbatim = errors.New("the object is not written as an API server writes it")

// describeVerbatim reads the attributes of an object that an API server has sent. It
// fails for an object that cannot be sent on unchanged. Reads of that object are passed
// on.
func (d describer) describeVerbatim(e *entry.Entry, v *Verbatim) error {
	sent, ok := sentobject.Read(v.Format, e.Value)
	var scan entry.Scan
	switch {
	case !ok || sent.Revision() != e.Revision:
		ok = false
	case v.Format == sentobject.JSON:
		scan, ok = v.fields.scanJSON(e.Value)
	case v.scan != nil:
		scan, ok = v.scan(e.Value)
	default:
		scan.Labels, scan.UID, ok = sent.Attributes()
	}
	if !ok {
		return fmt.Errorf("%w: %s at revision %d", errNotVerbatim, e.Key, e.Revision)
	}
	d.describe(e, scan)
	return nil
}

// scanJSON reads labels, the UID, and the fields at the paths.
func (v fieldPaths) scanJSON(value []byte) (entry.Scan, bool) {
	scan := entry.Scan{Fields: v.defaults()}
	l := storedjson.NewLexer(value)
	for ok := l.BeginObject(); ok; ok = l.NextField() {
		if name := string(l.Name()); name == "metadata" {
			scanCanonicalMetadata(&l, &scan)
		} else {
			v.scan(&l, name, scan.Fields)
		}
	}
	return scan, l.Done()
}

// defaults returns the fields of an object that has none of them.
func (v fieldPaths) defaults() fields.Set {
	set := make(fields.Set, len(v))
	for path, kind := range v {
		if set[path] = ""; kind == boolValue {
			set[path] = "false"
		}
	}
	return set
}

// scan reads the value at a path, and puts the wanted fields that are in it into found.
func (v fieldPaths) scan(l *storedjson.Lexer, path string, found fields.Set) {
	kind, wanted := v[path]
	switch {
	case wanted && kind == boolValue:
		isTrue := l.Word("true")
		l.RefuseIf(!isTrue && !l.Word("false"))
		if isTrue {
			found[path] = "true"
		}
	case wanted:
		text, ok := storedjson.Unquote(l.QuotedText())
		l.RefuseIf(!ok)
		found[path] = text
	case l.Peek() == '{' && v.reaches(path):
		for ok := l.BeginObject(); ok; ok = l.NextField() {
			v.scan(l, path+"."+string(l.Name()), found)
		}
	default:
		l.Value()
	}
}

// reaches reports whether a wanted field lies in the object at a path.
func (v fieldPaths) reaches(path string) bool {
	for field := range v {
		if rest, ok := strings.CutPrefix(field, path); ok && rest != "" && rest[0] == '.' {
			return true
		}
	}
	return false
}
