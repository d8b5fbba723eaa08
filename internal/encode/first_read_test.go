package encode

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/transcode"
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
	cfg.Transcoder = transcode.New(kind, target, "test", transcode.NewProofs(transcode.Config{Sample: 1 << 30}))
	cfg.Decode = func(e *resource.Entry) (runtime.Object, error) {
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
		last.entries = append(last.entries, &resource.Entry{Key: fmt.Sprintf("team/config-%05d", i), Revision: int64(i + 1), Value: value})
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

// TestFirstListOfATightBudgetKeepsNothing lists more than the budget has room for. Only the
// second LIST compresses what does not fit, and protobuf is never compressed.
func TestFirstListOfATightBudgetKeepsNothing(t *testing.T) {
	const objects, each = 960, 48
	for framing, keepsCompressed := range map[Framing]bool{JSON: true, Protobuf: false} {
		w := newFixture(t)
		w.budget = NewBudget(128 << 10)
		all := w.storedGroups(t, objects, each)
		f := w.transcodedForm(t, framing)
		plain := f.cfg
		plain.Transcoder, plain.Budget = nil, nil
		encoded, err := NewForm(plain)
		if err != nil {
			t.Fatal(err)
		}
		want := w.list(t, encoded, all, Identity)
		w.decoded.Store(0)
		for round, compressed := range []bool{false, keepsCompressed} {
			if got := w.list(t, f, all, Identity); got != want {
				t.Fatalf("framing %d: LIST %d differs", framing, round)
			}
			kept := 0
			for _, g := range all {
				if own, _, _ := g.memo.slotOf(f, g.entries); own.zstd.segment.Load() != nil {
					kept++
				}
			}
			if (kept > 0) != compressed {
				t.Errorf("framing %d: %d compressed segments after LIST %d", framing, kept, round)
			}
			collectGarbage() // Weak pointers end.
		}
		if n := w.decoded.Load(); n > each {
			t.Errorf("framing %d: %d objects were decoded", framing, n)
		}
	}
}

// TestSecondGzipIsKept lists with gzip. The first answer is not kept, the second one is.
func TestSecondGzipIsKept(t *testing.T) {
	w := newFixture(t)
	all := w.storedGroups(t, 480, 48)
	f := w.transcodedForm(t, JSON)
	want := w.list(t, f, all, Identity)
	for round, segments := range []int{0, len(all), len(all)} {
		if got := w.list(t, f, all, Gzip); got != want {
			t.Fatalf("LIST %d differs", round)
		}
		collectGarbage() // Weak pointers end.
		kept := 0
		for _, g := range all {
			if own, _, _ := g.memo.slotOf(f, g.entries); own.deflate.segment.Load() != nil {
				kept++
			}
		}
		if kept != segments {
			t.Errorf("%d of %d segments are kept after LIST %d, want %d", kept, len(all), round, segments)
		}
	}
}
