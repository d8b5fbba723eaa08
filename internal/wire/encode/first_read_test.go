package encode

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// transcodedForm is a form of config maps that are stored as Kubernetes stores them, with a
// transcoder.
func (w *fixture) transcodedForm(t *testing.T, framing Framing) *Form {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind, err := transcode.NewTables().Kind(scheme, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err != nil {
		t.Fatal(err)
	}
	target := transcode.ItemJSON
	if framing == Protobuf {
		target = transcode.ItemProtobuf
	}
	cfg := w.form(t, framing).cfg
	cfg.Transcoder = transcode.New(kind, target, "test", transcode.NewProofs(transcode.Config{Sample: 1 << 30}), nil)
	cfg.Decode = func(e *entry.Entry) (runtime.Object, error) {
		w.decoded.Add(1)
		obj, err := runtime.Decode(w.codecs.UniversalDeserializer(), e.Value)
		if err != nil {
			return nil, err
		}
		config := obj.(*corev1.ConfigMap)
		config.TypeMeta, config.ResourceVersion = metav1.TypeMeta{}, fmt.Sprint(e.Revision)
		return config, nil
	}
	f, err := NewForm(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// storedGroups are groups of so many config maps in Kubernetes' envelope.
func (w *fixture) storedGroups(t *testing.T, n, each int) []group {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(w.codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	encoder := w.codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	var all []group
	for i := range n {
		value, err := runtime.Encode(encoder, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config-%05d", i), Namespace: "team"},
			Data:       map[string]string{"text": strings.Repeat(fmt.Sprint(i, " "), 100)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if i%each == 0 {
			all = append(all, group{memo: new(Memo)})
		}
		last := &all[len(all)-1]
		last.entries = append(last.entries, &entry.Entry{Key: fmt.Sprintf("team/config-%05d", i), Revision: int64(i + 1), Value: value})
	}
	return all
}

// list writes a LIST of all groups, decompressed.
func (w *fixture) list(t *testing.T, f *Form, all []group, encoding Encoding) string {
	t.Helper()
	var out bytes.Buffer
	total := 0
	for _, g := range all {
		total += len(g.entries)
	}
	if err := newList(f, all, 0, total).Write(&out, encoding); err != nil {
		t.Fatal(err)
	}
	if encoding == Gzip {
		return string(gunzip(t, out.Bytes()))
	}
	return out.String()
}

// TestEachListKeepsAShare lists again and again. The first LIST keeps nothing, and no later one
// keeps many groups, so that none costs much more than the first. In the end all groups are
// kept: plain, or compressed if the budget is tight. Protobuf is never compressed.
func TestEachListKeepsAShare(t *testing.T) {
	const objects, each, rounds = 480, 24, 28
	for _, test := range []struct {
		framing    Framing
		limit      int64
		compressed bool
	}{{JSON, 64 << 20, false}, {JSON, 128 << 10, true}, {Protobuf, 64 << 20, false}, {Protobuf, 128 << 10, false}} {
		w := newFixture(t)
		w.budget = NewBudget(test.limit)
		all := w.storedGroups(t, objects, each)
		f := w.transcodedForm(t, test.framing)
		plain := f.cfg
		plain.Transcoder, plain.Budget = nil, nil
		encoded, err := NewForm(plain)
		if err != nil {
			t.Fatal(err)
		}
		want := w.list(t, encoded, all, Identity)
		w.decoded.Store(0)
		// Protobuf is measured first, and the first object is not proven then. A random sample
		// has a group kept, too.
		before, firstKept := 0, 0
		if test.framing == Protobuf {
			firstKept = len(all) / 4
		}
		for round := range rounds {
			if got := w.list(t, f, all, Identity); got != want {
				t.Fatalf("%+v: LIST %d differs", test, round)
			}
			collectGarbage() // Weak pointers end.
			warm, compressed := 0, 0
			for _, g := range all {
				own, _, _ := g.memo.slotOf(f, g.entries)
				if !own.cold() {
					warm++
				}
				if own.zstd.segment.Load() != nil {
					compressed++
				}
			}
			if warm > before+len(all)/keepShare+1 || round == 0 && warm > firstKept || compressed > 0 && !test.compressed {
				t.Errorf("%+v: %d groups are kept after LIST %d, %d of them compressed, and %d before", test, warm, round, compressed, before)
			}
			before = warm
		}
		if before < len(all) && (test.compressed || test.limit > 1<<20) {
			t.Errorf("%+v: only %d of %d groups are kept in the end", test, before, len(all))
		}
		if n := w.decoded.Load(); n > each {
			t.Errorf("%+v: %d objects were decoded", test, n)
		}
	}
}

// TestCompressedSegmentsAreKeptAtOnce lists with compression. What is compressed is kept, and
// what it is made of is not.
func TestCompressedSegmentsAreKeptAtOnce(t *testing.T) {
	for _, encoding := range []Encoding{Gzip, Zstd} {
		w := newFixture(t)
		all := w.storedGroups(t, 480, 48)
		f := w.transcodedForm(t, JSON)
		first := w.list(t, f, all, encoding)
		compressed, plain := 0, 0
		for _, g := range all {
			own, _, _ := g.memo.slotOf(f, g.entries)
			if codingOf(encoding).cell(own).segment.Load() != nil {
				compressed++
			}
			if own.plain.segment.Load() != nil {
				plain++
			}
		}
		if compressed != len(all) || plain > 1 { // The length of the first is measured.
			t.Errorf("%s: %d compressed and %d plain segments of %d are kept", encoding, compressed, plain, len(all))
		}
		if w.list(t, f, all, encoding) != first {
			t.Errorf("%s: the second answer differs", encoding)
		}
	}
}

// TestManyFirstReaders has readers of all codings come to cold groups at once.
func TestManyFirstReaders(t *testing.T) {
	withHelpers(t, 3)
	for _, framing := range []Framing{JSON, Protobuf} {
		for _, limit := range []int64{128 << 10, 64 << 20} {
			w := newFixture(t)
			w.budget = NewBudget(limit)
			all := w.storedGroups(t, 960, 48)
			f := w.transcodedForm(t, framing)
			want := w.list(t, f, w.storedGroups(t, 960, 48), Identity)
			var readers sync.WaitGroup
			for i := range 24 {
				readers.Go(func() {
					if got := w.list(t, f, all, []Encoding{Identity, Gzip}[i%2]); got != want {
						t.Errorf("framing %d, budget %d: reader %d got other bytes", framing, limit, i)
					}
				})
			}
			readers.Wait()
			if used := w.budget.UsedBytes(); used > limit {
				t.Errorf("framing %d: %d bytes kept of %d", framing, used, limit)
			}
		}
	}
}
