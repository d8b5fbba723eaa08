package transcode

import (
	"bytes"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// formConfig is that of a form as package read makes it.
func formConfig(tb testing.TB, v *version, framing encode.Framing, t *transcode.Transcoder) encode.Config {
	tb.Helper()
	mediaType := runtime.ContentTypeJSON
	if framing == encode.Protobuf || framing == encode.WatchProtobuf {
		mediaType = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(v.codecs.SupportedMediaTypes(), mediaType)
	cfg := encode.Config{
		Name: "test", Decode: v.decode, Encoder: v.encoder(tb, mediaType), Framing: framing, MediaType: mediaType, Transcoder: t,
		Budget: encode.NewBudget(1 << 30),
		List: encode.PlainList(func() runtime.Object {
			list, err := v.scheme.New(v.internal().WithKind(v.kind.Kind + "List"))
			if err != nil {
				tb.Fatal(err)
			}
			return list
		}),
	}
	if framing == encode.WatchJSON || framing == encode.WatchProtobuf {
		cfg.Events = v.codecs.EncoderForVersion(info.StreamSerializer.Serializer, v.kind.GroupVersion())
		cfg.Framer = info.StreamSerializer.Framer
	}
	return cfg
}

func newForm(tb testing.TB, v *version, framing encode.Framing, t *transcode.Transcoder) *encode.Form {
	tb.Helper()
	f, err := encode.NewForm(formConfig(tb, v, framing, t))
	if err != nil {
		tb.Fatal(err)
	}
	if framing == encode.JSON || framing == encode.Protobuf {
		obj, err := v.scheme.New(v.internal().WithKind(v.kind.Kind))
		if err != nil {
			tb.Fatal(err)
		}
		if err := f.SetModel(obj); err != nil {
			tb.Fatal(err)
		}
	}
	return f
}

// pods are pods as a cache has them, packed and each with a revision of its own.
func pods(tb testing.TB, n, size int) []*entry.Entry {
	tb.Helper()
	return changedPods(tb, n, size, func(int, *corev1.Pod) {})
}

// nameVolumes gives a pod's volumes names of its own, as admission does with the volume of the
// token. Few values that name them are shared with other pods.
func nameVolumes(i int, pod *corev1.Pod) {
	suffix := fmt.Sprintf("-%05d", i)
	for n := range pod.Spec.Volumes {
		pod.Spec.Volumes[n].Name += suffix
	}
	for n := range pod.Spec.Containers {
		for m := range pod.Spec.Containers[n].VolumeMounts {
			pod.Spec.Containers[n].VolumeMounts[m].Name += suffix
		}
	}
	for n := range pod.Status.ContainerStatuses {
		for m := range pod.Status.ContainerStatuses[n].VolumeMounts {
			pod.Status.ContainerStatuses[n].VolumeMounts[m].Name += suffix
		}
	}
}

// changedPods are pods that change has changed.
func changedPods(tb testing.TB, n, size int, change func(int, *corev1.Pod)) []*entry.Entry {
	tb.Helper()
	g, err := fill.NewGenerator(fill.Shape{Pods: max(n, 2*fill.SlicePods), PodSize: size})
	if err != nil {
		tb.Fatal(err)
	}
	entries := make([]*entry.Entry, n)
	for i := range entries {
		pod := g.Pod(i).DeepCopy()
		change(i, pod)
		stored, err := fill.EncodeStored(pod)
		if err != nil {
			tb.Fatal(err)
		}
		entries[i] = &entry.Entry{Key: fmt.Sprintf("ns/pod-%05d", i), Revision: int64(1000 + 7*i), Value: stored}
	}
	pack(tb, entries)
	return entries
}

// pack packs entries with a dictionary of some of them, as the cache does.
func pack(tb testing.TB, entries []*entry.Entry) {
	tb.Helper()
	var samples [][]byte
	for i, bytes := 0, 0; bytes < entry.MaxSampleBytes(); i++ {
		sample := entries[i*97%len(entries)].Value
		samples = append(samples, sample)
		bytes += len(sample)
	}
	packing, err := entry.NewPacking(samples)
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		e.Pack(packing)
	}
}

var targets = map[encode.Framing]transcode.Target{
	encode.JSON: transcode.ItemJSON, encode.Protobuf: transcode.ItemProtobuf,
	encode.WatchJSON: transcode.ObjectJSON, encode.WatchProtobuf: transcode.ObjectProtobuf,
}

// TestFormsAreTheSameWithTranscoder compares lists, objects and frames of forms with and
// without a transcoder, and checks that most objects go through it.
func TestFormsAreTheSameWithTranscoder(t *testing.T) {
	const count = 48
	v := versionOf(t, "v1", "Pod")
	for framing, target := range targets {
		proofs := transcode.NewProofs(transcode.Config{})
		fast := newForm(t, v, framing, transcode.New(v.tables, target, "pods", proofs, nil))
		plain := newForm(t, v, framing, nil)
		write := written
		if framing == encode.WatchJSON || framing == encode.WatchProtobuf {
			write = framed
		}
		entries := pods(t, count, 8000)
		for range 3 { // The first objects prove what the others rely on.
			if got, want := write(t, fast, entries), write(t, plain, entries); got != want {
				t.Errorf("framing %d: got %q, want %q", framing, got, want)
			}
		}
		counts := proofs.Counts()
		if counts.Transcoded < 2*count || counts.Different+counts.Declined > 0 {
			t.Errorf("framing %d: %+v", framing, counts)
		}
	}
}

// written is a list of entries and each of them alone.
func written(t *testing.T, f *encode.Form, entries []*entry.Entry) string {
	t.Helper()
	var buf bytes.Buffer
	run := encode.EntryRun{Memo: new(encode.Memo), Entries: entries, To: len(entries)}
	list := &encode.List{Form: f, Meta: encode.Meta{ResourceVersion: 9999}, Runs: func(yield func(encode.EntryRun) bool) { yield(run) }}
	if err := list.Write(&buf, encode.Identity); err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		run.From, run.To, run.Memo = i, i+1, new(encode.Memo)
		alone, err := f.Object(run)
		if err != nil {
			t.Fatal(err)
		}
		buf.Write(alone)
	}
	return buf.String()
}

// framed is the frames of adding entries and of deleting them later.
func framed(t *testing.T, f *encode.Form, entries []*entry.Entry) string {
	t.Helper()
	s := &encode.Stream{Form: f, Observe: func(int) {}}
	var changes []encode.Change
	for _, e := range entries {
		for _, kind := range []watch.EventType{watch.Added, watch.Deleted} {
			changes = append(changes, encode.Change{Kind: kind, Entry: e, Revision: e.Revision + 1, Frames: new(encode.Frames)})
		}
	}
	segments, rest, err := s.Append(nil, changes, 1<<30)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%d changes left: %v", len(rest), err)
	}
	return string(bytes.Join(segments, nil))
}
