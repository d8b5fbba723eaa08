package crd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/storedjson"
)

// errNotCanonical says that a definition is not stored as Kubernetes stores it now: its
// JSON is not canonical, or lacks values that Kubernetes fills in.
var errNotCanonical = errors.New("definition is not stored as Kubernetes stores it")

// Attributes reads the labels, the selectable fields and the UID of a stored definition
// without decoding it. It reports false if the definition is not canonical.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.GetAttrs; compare at each upgrade.
func Attributes(stored []byte) (entry.Scan, bool) {
	r := valueReader{}
	metadata := r.object(r.object(bytes.TrimSuffix(stored, newline)).Get("metadata"))
	var l labels.Set
	r.optional(metadata.Get("labels"), &l)
	var namespace, uid string
	r.optional(metadata.Get("namespace"), &namespace)
	r.optional(metadata.Get("uid"), &uid)
	f := fields.Set{"metadata.name": r.text(metadata.Get("name")), "metadata.namespace": namespace}
	return entry.Scan{Labels: l, Fields: f, UID: []byte(uid)}, !r.notCanonical
}

// newline ends the text of a stored object.
var newline = []byte("\n")

// valueReader decodes parts of a stored text. It returns zero values after the first part
// that is not canonical or missing, so that callers check for that only once.
type valueReader struct{ notCanonical bool }

// object returns the fields of an object.
func (r *valueReader) object(text []byte) storedjson.Object {
	fields, ok := storedjson.Fields(text)
	r.notCanonical = r.notCanonical || !ok
	return fields
}

// value decodes a field that must be there.
func (r *valueReader) value(text []byte, into any) {
	if r.notCanonical = r.notCanonical || text == nil; !r.notCanonical {
		r.notCanonical = json.UnmarshalCaseSensitivePreserveInts(text, into) != nil
	}
}

// optional decodes a field if it is there.
func (r *valueReader) optional(text []byte, into any) {
	if text != nil {
		r.value(text, into)
	}
}

// text decodes a string that must not be empty.
func (r *valueReader) text(text []byte) string {
	var s string
	r.value(text, &s)
	r.notCanonical = r.notCanonical || s == ""
	return s
}

// row reads the row of a stored definition. After errNotCanonical the caller lets
// Kubernetes decode and encode the definition, and tries again.
func (i interner) row(stored []byte, revision int64) (*Definition, error) {
	r := valueReader{}
	top := r.object(bytes.TrimSuffix(stored, newline))
	apiVersion, kind := r.text(top.Get("apiVersion")), r.text(top.Get("kind"))
	old := apiVersion == v1beta1.SchemeGroupVersion.String()
	if kind != "CustomResourceDefinition" || !old && apiVersion != apiextensionsv1.SchemeGroupVersion.String() {
		return nil, errNotCanonical
	}
	metadata := r.object(top.Get("metadata"))
	d := &Definition{
		Name: r.text(metadata.Get("name")), Revision: revision, Deleting: metadata.Get("deletionTimestamp") != nil,
	}
	r.optional(metadata.Get("uid"), &d.UID)
	i.readSpec(&r, d, r.object(top.Get("spec")), old)
	var status apiextensionsv1.CustomResourceDefinitionStatus
	r.value(top.Get("status"), &status)
	if r.notCanonical || len(status.StoredVersions) == 0 {
		return nil, errNotCanonical
	}
	i.readStatus(d, &status)
	return d, nil
}

// readStatus sets the fields of a row that come from the status.
func (i interner) readStatus(d *Definition, status *apiextensionsv1.CustomResourceDefinitionStatus) {
	full := &apiextensionsv1.CustomResourceDefinition{Status: *status}
	d.StoredVersions = i.all(status.StoredVersions)
	d.Accepted = i.names(&status.AcceptedNames, &d.Wanted)
	d.NamesAccepted = apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.NamesAccepted)
	d.Established = apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Established)
	d.Terminating = apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Terminating)
	d.Unchecked = d.KeepsUnknown || apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.NonStructuralSchema) != nil
	if c := apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.Established); c != nil {
		d.EstablishedAt = c.LastTransitionTime.Time
	}
}

// withStatus returns the row of full, whose spec must be the one that d was read from.
func (d *Definition) withStatus(full *apiextensionsv1.CustomResourceDefinition) (*Definition, error) {
	made := *d
	var err error
	if made.Revision, err = revisionOf(full); err != nil {
		return nil, err
	}
	made.Deleting, made.EstablishedAt = full.DeletionTimestamp != nil, time.Time{}
	interner{}.readStatus(&made, &full.Status)
	return &made, nil
}

// revisionOf parses the resource version of a definition.
func revisionOf(full *apiextensionsv1.CustomResourceDefinition) (int64, error) {
	revision, err := strconv.ParseInt(full.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read resource version of %s: %w", full.Name, err)
	}
	return revision, nil
}

// sharedParts are the parts of versions that v1beta1 stores once, in the spec, if all
// versions have the same. The two names are the name in a version and the name in the
// spec.
var sharedParts = [...]struct{ version, spec string }{
	{"schema", "validation"}, {"subresources", "subresources"},
	{"additionalPrinterColumns", "additionalPrinterColumns"}, {"selectableFields", "selectableFields"},
}

// readSpec sets the fields of a row that come from the spec. old says that the spec is
// v1beta1, which preserves unknown fields unless it says otherwise.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.Convert_v1beta1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec; compare at each upgrade.
func (i interner) readSpec(r *valueReader, d *Definition, spec storedjson.Object, old bool) {
	var names apiextensionsv1.CustomResourceDefinitionNames
	r.value(spec.Get("names"), &names)
	d.Wanted = i.names(&names, &apiextensionsv1.CustomResourceDefinitionNames{})
	d.Group, d.Scope = i.one(r.text(spec.Get("group"))), apiextensionsv1.ResourceScope(i.one(r.text(spec.Get("scope"))))
	strategy := r.text(r.object(spec.Get("conversion")).Get("strategy"))
	d.Webhook = strategy == string(apiextensionsv1.WebhookConverter)
	keeps := spec.Get("preserveUnknownFields")
	r.optional(keeps, &d.KeepsUnknown)
	versions, ok := storedjson.Items(spec.Get("versions"))
	if r.notCanonical = r.notCanonical || !ok || len(versions) == 0 || names.Singular == "" || names.ListKind == "" || old && keeps == nil; r.notCanonical {
		return
	}
	sum := newDigest()
	for _, f := range spec {
		// "version" repeats the name of the first version, for old clients.
		if name := string(f.Name); name != "version" && name != "versions" && !isSharedPart(name) {
			sum.add(f.Name, f.Value)
		}
	}
	for _, text := range versions {
		v := i.readVersion(r, r.object(text), spec)
		d.Versions = append(d.Versions, v)
		sum.number(v.Content)
	}
	d.Spec = sum.short()
}

func isSharedPart(name string) bool {
	return slices.ContainsFunc(sharedParts[:], func(s struct{ version, spec string }) bool { return s.spec == name || s.version == name })
}

// readVersion reads one version of the spec.
func (i interner) readVersion(r *valueReader, version, spec storedjson.Object) Version {
	var v Version
	v.Name = i.one(r.text(version.Get("name")))
	r.value(version.Get("served"), &v.Served)
	r.value(version.Get("storage"), &v.Storage)
	r.optional(version.Get("deprecated"), &v.Deprecated)
	r.optional(version.Get("deprecationWarning"), &v.DeprecationWarning)
	if v.DeprecationWarning != nil {
		*v.DeprecationWarning = i.one(*v.DeprecationWarning)
	}
	sum := newDigest()
	for _, f := range version {
		if !isSharedPart(string(f.Name)) {
			sum.add(f.Name, f.Value)
		}
	}
	parts := map[string][]byte{}
	for _, s := range sharedParts {
		value := spec.Get(s.spec)
		if value == nil {
			value = version.Get(s.version)
		}
		parts[s.version] = value
		sum.add([]byte(s.version), value)
	}
	v.Content = sum.short()
	schema := newDigest()
	schema.add(parts["schema"])
	v.Schema = schema.short()
	if parts["subresources"] != nil {
		subresources := r.object(parts["subresources"])
		v.Status, v.Scale = subresources.Get("status") != nil, subresources.Get("scale") != nil
	}
	var fields []apiextensionsv1.SelectableField
	r.optional(parts["selectableFields"], &fields)
	for _, field := range fields {
		v.SelectableFields = append(v.SelectableFields, i.one(field.JSONPath))
	}
	return v
}

// digest identifies content by its parts and their order.
type digest struct{ hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(parts ...[]byte) {
	for _, part := range parts {
		d.number(uint64(len(part)))
		_, _ = d.Write(part) // a hash never fails
	}
}

func (d digest) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = d.Write(b[:])
}

func (d digest) short() uint64 { return binary.LittleEndian.Uint64(d.Sum(nil)) }
