package transcode

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/apihelpers"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubefuzzer "k8s.io/kubernetes/pkg/api/testing"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// builtIn is a scheme of built-in kinds.
type builtIn struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	funcs  fuzzer.FuzzerFuncs
}

func schemes() []builtIn {
	return []builtIn{
		{legacyscheme.Scheme, legacyscheme.Codecs, kubefuzzer.FuzzerFuncs},
		{aggregatorscheme.Scheme, aggregatorscheme.Codecs, metafuzzer.Funcs},
	}
}

// version is a kind in one of its versions.
type version struct {
	builtIn
	kind schema.GroupVersionKind
	// tables are nil if the kind is not supported.
	tables *transcode.Kind
	reason error
}

// internal is the version in which Kubernetes' handlers have the objects.
func (v *version) internal() schema.GroupVersion {
	return schema.GroupVersion{Group: v.kind.Group, Version: runtime.APIVersionInternal}
}

var versions = sync.OnceValue(func() []*version {
	tables := transcode.NewTables()
	var found []*version
	for _, b := range schemes() {
		for _, gv := range b.scheme.PrioritizedVersionsAllGroups() {
			for name := range b.scheme.KnownTypes(gv) {
				v := &version{builtIn: b, kind: gv.WithKind(name)}
				if !b.scheme.Recognizes(v.internal().WithKind(name)) || !b.scheme.Recognizes(gv.WithKind(name+"List")) {
					continue
				}
				obj, err := b.scheme.New(v.kind)
				if err != nil {
					panic(err)
				}
				if _, err := meta.Accessor(obj); err != nil {
					continue // It is an answer, and never stored.
				}
				v.tables, v.reason = tables.Kind(b.scheme, v.kind)
				found = append(found, v)
			}
		}
	}
	slices.SortFunc(found, func(a, b *version) int { return cmp.Compare(a.kind.String(), b.kind.String()) })
	return found
})

// versionOf finds a kind in a version.
func versionOf(tb testing.TB, apiVersion, kind string) *version {
	tb.Helper()
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	for _, v := range versions() {
		if v.kind == gvk {
			return v
		}
	}
	tb.Fatalf("no %v", gvk)
	return nil
}

// store encodes an object in the version, as Kubernetes' storage does.
func (v *version) store(obj runtime.Object) ([]byte, error) {
	info, _ := runtime.SerializerInfoForMediaType(v.codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return runtime.Encode(v.codecs.EncoderForVersion(info.Serializer, v.kind.GroupVersion()), obj)
}

// storeAsIs encodes an object of the version, without conversion.
func (v *version) storeAsIs(obj runtime.Object) ([]byte, error) {
	obj.GetObjectKind().SetGroupVersionKind(v.kind)
	defer obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return runtime.Encode(protobuf.NewSerializer(v.scheme, v.scheme), obj)
}

// decode decodes a stored object as Kubernetes' storage does, with its revision.
func (v *version) decode(e *entry.Entry) (runtime.Object, error) {
	var obj runtime.Object
	if err := e.Read(func(value []byte) (err error) {
		obj, err = runtime.Decode(v.codecs.UniversalDecoder(v.internal()), value)
		return err
	}); err != nil {
		return nil, err
	}
	return obj, storage.APIObjectVersioner{}.UpdateObject(obj, uint64(e.Revision))
}

// stored is what storage.Store.Stored returns.
func (v *version) stored(e *entry.Entry) ([]byte, error) {
	obj, err := v.decode(e)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion("")
	return v.store(obj)
}

func (v *version) encoder(tb testing.TB, mediaType string) runtime.Encoder {
	tb.Helper()
	info, ok := runtime.SerializerInfoForMediaType(v.codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		tb.Fatalf("no serializer for %s", mediaType)
	}
	return v.codecs.EncoderForVersion(info.Serializer, v.kind.GroupVersion())
}

// mediaTypes are the targets of objects alone.
var mediaTypes = map[transcode.Target]string{
	transcode.ObjectJSON:     runtime.ContentTypeJSON,
	transcode.ObjectProtobuf: runtime.ContentTypeProtobuf,
}

// lane sends objects of one version in one form through a transcoder, and each through
// Kubernetes' encoder as well.
type lane struct {
	version    *version
	encoder    runtime.Encoder
	proofs     *transcode.Proofs
	transcoder *transcode.Transcoder
	alarm      *alarm
	// part is what is sent of an object, nil for all of it.
	part func(runtime.Object) (runtime.Object, error)
}

// newLane makes a lane that compares all objects.
func newLane(tb testing.TB, v *version, target transcode.Target) *lane {
	tb.Helper()
	return newLanes(tb, v, target)[0]
}

// newLanes makes lanes that share the normal forms of objects, as the forms of a resource do.
func newLanes(tb testing.TB, v *version, targets ...transcode.Target) []*lane {
	tb.Helper()
	normalizer := transcode.NewNormalizer(v.stored)
	lanes := make([]*lane, len(targets))
	for i, target := range targets {
		a := &alarm{}
		proofs := transcode.NewProofs(transcode.Config{Sample: 1, Logger: slog.New(a)})
		lanes[i] = &lane{
			version: v, encoder: v.encoder(tb, mediaTypes[target]), proofs: proofs, alarm: a,
			transcoder: transcode.New(v.tables, target, v.kind.String(), proofs, normalizer),
		}
	}
	return lanes
}

// newMetadataLane makes a lane that sends the metadata of objects alone.
func newMetadataLane(tb testing.TB, v *version, target transcode.Target) *lane {
	tb.Helper()
	l := newLane(tb, v, target)
	kind, err := v.tables.Metadata(metav1.SchemeGroupVersion.Version)
	if err != nil {
		tb.Fatal(err)
	}
	l.transcoder = transcode.New(kind, target, v.kind.String()+" metadata", l.proofs, nil)
	codecs := apihelpers.GetMetaInternalVersionCodecs()
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaTypes[target])
	l.encoder = codecs.EncoderForVersion(info.Serializer, metav1.SchemeGroupVersion)
	l.part = func(obj runtime.Object) (runtime.Object, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		partial := meta.AsPartialObjectMetadata(m)
		partial.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return partial, nil
	}
	return l
}

const revision = 1234567

// outcome is what became of an object.
type outcome string

const (
	equal     outcome = "equal"
	different outcome = "different"
	refuted   outcome = "refuted"
	declined  outcome = "declined"
	// normal is equal once the normal form was found.
	normal outcome = "normal"
	unread outcome = "unread" // Kubernetes cannot read it.
)

// send sends a stored object. What the transcoder gives must be Kubernetes' bytes.
func (l *lane) send(tb testing.TB, stored []byte) outcome {
	tb.Helper()
	before := l.proofs.Counts()
	e := &entry.Entry{Key: "ns/name", Revision: revision, Value: stored}
	var want []byte
	got, err := l.transcoder.Append([]byte("before"), e, func(dst []byte) ([]byte, error) {
		obj, err := l.version.decode(e)
		if err != nil {
			return dst, err
		}
		if l.part != nil {
			if obj, err = l.part(obj); err != nil {
				return dst, err
			}
		}
		var buf bytes.Buffer
		if err := l.encoder.Encode(obj, &buf); err != nil {
			return dst, err
		}
		want = buf.Bytes()
		return append(dst, want...), nil
	})
	if err != nil {
		return unread
	}
	if want == nil {
		tb.Fatalf("an object of %v was not encoded by Kubernetes", l.version.kind)
	}
	if string(got) != "before"+string(want) {
		tb.Fatalf("%v: got %q, want %q", l.version.kind, got, want)
	}
	if l.alarm.text != "" {
		tb.Fatalf("%v: objects with one fingerprint were equal and different: %s\nKubernetes: %s", l.version.kind, l.alarm.text, want)
	}
	switch after := l.proofs.Counts(); {
	case after.Different > before.Different:
		return different
	case after.Normalized > before.Normalized && after.Compared > before.Compared:
		return normal
	case after.Refuted > before.Refuted:
		return refuted
	case after.Declined > before.Declined:
		return declined
	}
	return equal
}

// alarm is a slog.Handler that keeps what was logged as an error: that a proven fingerprint
// was refuted. last is what was logged last.
type alarm struct{ text, last string }

func (a *alarm) Enabled(context.Context, slog.Level) bool { return true }
func (a *alarm) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a *alarm) WithGroup(string) slog.Handler            { return a }
func (a *alarm) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(attr slog.Attr) bool { fmt.Fprintf(&b, " %v", attr); return true })
	if a.last = b.String(); r.Level >= slog.LevelError {
		a.text = a.last
	}
	return nil
}
