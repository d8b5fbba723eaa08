package encode

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/millrace/millrace/internal/wire/entry"
)

// fixture has the encoders of config maps, and a budget.
type fixture struct {
	codecs serializer.CodecFactory
	// decoded counts calls of Decode.
	decoded atomic.Int64
	budget  *Budget
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	return &fixture{codecs: serializer.NewCodecFactory(scheme), budget: NewBudget(64 << 20)}
}

var errNotDecoded = errors.New("not to be decoded")

func (w *fixture) decode(e *entry.Entry) (runtime.Object, error) {
	w.decoded.Add(1)
	if e.Size() == 0 {
		return nil, errNotDecoded
	}
	obj := &corev1.ConfigMap{}
	if err := e.Read(obj.Unmarshal); err != nil {
		return nil, err
	}
	obj.ResourceVersion = strconv.FormatInt(e.Revision, 10)
	return obj, nil
}

func (w *fixture) encoder(tb testing.TB, framing Framing) (runtime.Encoder, string) {
	tb.Helper()
	mediaType := runtime.ContentTypeJSON
	if framing == Protobuf {
		mediaType = runtime.ContentTypeProtobuf
	}
	info, ok := runtime.SerializerInfoForMediaType(w.codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		tb.Fatalf("no serializer for %s", mediaType)
	}
	chosen := runtime.Encoder(info.Serializer)
	if framing == PrettyJSON {
		chosen = info.PrettySerializer
	}
	return w.codecs.EncoderForVersion(chosen, corev1.SchemeGroupVersion), mediaType
}

func (w *fixture) form(tb testing.TB, framing Framing) *Form {
	tb.Helper()
	encoder, mediaType := w.encoder(tb, framing)
	f, err := NewForm(Config{
		Decode: w.decode, List: PlainList(func() runtime.Object { return &corev1.ConfigMapList{} }),
		Encoder: encoder, Framing: framing, MediaType: mediaType, Budget: w.budget,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func configEntry(tb testing.TB, i int, text string) *entry.Entry {
	tb.Helper()
	obj := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config-%05d", i), Namespace: "team", Labels: map[string]string{"index": strconv.Itoa(i)}},
		Data:       map[string]string{"text": text, "odd": "<&>\u2028\"items\":[]"},
	}
	value, err := obj.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return &entry.Entry{Key: obj.Namespace + "/" + obj.Name, Revision: int64(100 + i), Value: value}
}

// group is a leaf of the cache's tree.
type group struct {
	memo    *Memo
	entries []*entry.Entry
}

// groups makes n entries in groups of some size.
func groups(tb testing.TB, n, size int) []group {
	tb.Helper()
	var all []group
	for i := range n {
		if i%size == 0 {
			all = append(all, group{memo: new(Memo)})
		}
		last := &all[len(all)-1]
		last.entries = append(last.entries, configEntry(tb, i, strings.Repeat("text ", i%40)))
	}
	return all
}

// runsBetween yields the entries from..to-1 of all groups.
func runsBetween(all []group, from, to int) iter.Seq[EntryRun] {
	return func(yield func(EntryRun) bool) {
		at := 0
		for _, g := range all {
			first, last := max(0, from-at), min(len(g.entries), to-at)
			at += len(g.entries)
			if first < last && !yield(EntryRun{Memo: g.memo, Entries: g.entries, From: first, To: last}) {
				return
			}
		}
	}
}

// expectedList is the list as Kubernetes' encoder writes it.
func (w *fixture) expectedList(tb testing.TB, framing Framing, all []group, from, to int) []byte {
	tb.Helper()
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "4711"}, Items: []corev1.ConfigMap{}}
	for run := range runsBetween(all, from, to) {
		for _, e := range run.Entries[run.From:run.To] {
			obj, err := w.decode(e)
			if err != nil {
				tb.Fatal(err)
			}
			list.Items = append(list.Items, *obj.(*corev1.ConfigMap))
		}
	}
	encoder, _ := w.encoder(tb, framing)
	var buf bytes.Buffer
	if err := encoder.Encode(list, &buf); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func newList(f *Form, all []group, from, to int) *List {
	return &List{Form: f, Meta: Meta{ResourceVersion: 4711}, Runs: runsBetween(all, from, to), Empty: from >= to}
}

var framings = map[string]Framing{"json": JSON, "pretty": PrettyJSON, "protobuf": Protobuf}

func TestListIsWhatTheEncoderWrites(t *testing.T) {
	w := newFixture(t)
	all := groups(t, 130, 48)
	ranges := [][2]int{{0, 130}, {0, 0}, {0, 1}, {0, 48}, {0, 49}, {47, 49}, {48, 96}, {50, 60}, {95, 130}, {129, 130}, {1, 129}}
	for name, framing := range framings {
		t.Run(name, func(t *testing.T) {
			f := w.form(t, framing)
			for _, r := range ranges {
				want := w.expectedList(t, framing, all, r[0], r[1])
				for _, pass := range []string{"cold", "warm"} {
					checkList(t, fmt.Sprintf("%v %s", r, pass), newList(f, all, r[0], r[1]), want)
				}
			}
		})
	}
}

// checkList writes a list in each coding and compares it with want. It also checks
// LongerThan.
func checkList(t *testing.T, what string, list *List, want []byte) {
	t.Helper()
	var plain, compressed bytes.Buffer
	if err := list.Write(&plain, Identity); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(plain.Bytes(), want) {
		t.Fatalf("%s: wrote\n%.500q\nwant\n%.500q", what, plain.Bytes(), want)
	}
	if err := list.Write(&compressed, Gzip); err != nil {
		t.Fatal(err)
	}
	if got := gunzip(t, compressed.Bytes()); !bytes.Equal(got, want) {
		t.Fatalf("%s compressed: wrote\n%.500q\nwant\n%.500q", what, got, want)
	}
	var zstd bytes.Buffer
	if err := list.Write(&zstd, Zstd); err != nil {
		t.Fatal(err)
	}
	if got := unzstd(t, zstd.Bytes()); !bytes.Equal(got, want) {
		t.Fatalf("%s as zstd: wrote\n%.500q\nwant\n%.500q", what, got, want)
	}
	for offset, longer := range map[int64]bool{-1: true, 0: false, 1: false, -500: true, 500: false} {
		got, err := list.LongerThan(int64(len(want)) + offset)
		if err != nil {
			t.Fatal(err)
		}
		if got != longer {
			t.Errorf("%s: a list of %d bytes is longer than %d: %v", what, len(want), int64(len(want))+offset, got)
		}
	}
}

func TestListWithoutBudget(t *testing.T) {
	w := newFixture(t)
	w.budget = nil
	all := groups(t, 60, 20)
	for name, framing := range framings {
		t.Run(name, func(t *testing.T) {
			f := w.form(t, framing)
			checkList(t, "all", newList(f, all, 0, 60), w.expectedList(t, framing, all, 0, 60))
		})
	}
}

func TestLongerThanStopsEarly(t *testing.T) {
	w := newFixture(t)
	all := groups(t, 1000, 10)
	w.decoded.Store(0)
	longer, err := newList(w.form(t, JSON), all, 0, 1000).LongerThan(100)
	if err != nil || !longer {
		t.Fatalf("longer: %v, %v", longer, err)
	}
	if n := w.decoded.Load(); n > 10 {
		t.Errorf("decoded %d of 1000 objects to learn that there are 100 bytes", n)
	}
}

func TestListFailsBeforeItsFirstByte(t *testing.T) {
	w := newFixture(t)
	all := groups(t, 10, 10)
	all[0].entries[5] = &entry.Entry{Key: "team/broken"}
	for name, framing := range framings {
		for _, encoding := range []Encoding{Identity, Gzip, Zstd} {
			var out bytes.Buffer
			if err := newList(w.form(t, framing), all, 0, 10).Write(&out, encoding); !errors.Is(err, errNotDecoded) || out.Len() > 0 {
				t.Errorf("%s, %q: wrote %d bytes, %v", name, encoding, out.Len(), err)
			}
		}
	}
}

// TestObject compares answers to GETs with the encoder's bytes, with and without SetModel.
func TestObject(t *testing.T) {
	w := newFixture(t)
	g := groups(t, 10, 10)[0]
	for name, framing := range framings {
		t.Run(name, func(t *testing.T) {
			bare, modelled := w.form(t, framing), w.form(t, framing)
			if err := modelled.SetModel(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "model"}}); err != nil {
				t.Fatal(err)
			}
			if (modelled.alone != nil) != (framing != PrettyJSON) {
				t.Error("the model was not understood")
			}
			encoder, _ := w.encoder(t, framing)
			for i, e := range g.entries {
				obj, err := w.decode(e)
				if err != nil {
					t.Fatal(err)
				}
				var want bytes.Buffer
				if err := encoder.Encode(obj, &want); err != nil {
					t.Fatal(err)
				}
				for _, f := range []*Form{bare, modelled, modelled} {
					got, err := f.Object(EntryRun{Memo: g.memo, Entries: g.entries, From: i, To: i + 1})
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, want.Bytes()) {
						t.Errorf("got %q, want %q", got, want.Bytes())
					}
				}
			}
		})
	}
}

// TestObjectWithItsOwnKind reads an object that names its kind as a list's item, too. Objects do
// that which are stored as JSON without an apiVersion.
func TestObjectWithItsOwnKind(t *testing.T) {
	w := newFixture(t)
	for name, framing := range framings {
		t.Run(name, func(t *testing.T) {
			encoder, mediaType := w.encoder(t, framing)
			odd := func(e *entry.Entry) (runtime.Object, error) {
				obj, err := w.decode(e)
				if err == nil {
					obj.(*corev1.ConfigMap).Kind = "ConfigMap"
				}
				return obj, err
			}
			f, err := NewForm(Config{
				Decode: odd, List: PlainList(func() runtime.Object { return &corev1.ConfigMapList{} }),
				Encoder: encoder, Framing: framing, MediaType: mediaType, Budget: w.budget,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.SetModel(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "model"}}); err != nil {
				t.Fatal(err)
			}
			g := groups(t, 1, 1)[0]
			obj, err := odd(g.entries[0])
			if err != nil {
				t.Fatal(err)
			}
			var want bytes.Buffer
			if err := encoder.Encode(obj, &want); err != nil {
				t.Fatal(err)
			}
			got, err := f.Object(EntryRun{Memo: g.memo, Entries: g.entries, From: 0, To: 1})
			if err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("got %q (%v), want %q", got, err, want.Bytes())
			}
		})
	}
}

// TestSingleItemsAreEncodedAlone reads single items. Their neighbours are not encoded.
// The items are kept, and copied when the whole group is encoded.
func TestSingleItemsAreEncodedAlone(t *testing.T) {
	w := newFixture(t)
	all := groups(t, 40, 40)
	f := w.form(t, JSON)
	read := func(from, to int) int64 {
		t.Helper()
		want := w.expectedList(t, JSON, all, from, to)
		before := w.decoded.Load()
		var out bytes.Buffer
		if err := newList(f, all, from, to).Write(&out, Identity); err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Fatalf("items %d to %d: %v", from, to, err)
		}
		return w.decoded.Load() - before
	}
	for _, c := range []struct {
		from, to int
		decoded  int64
	}{{3, 5, 2}, {3, 5, 0}, {4, 6, 1}, {0, 40, 37}, {30, 31, 0}} {
		if n := read(c.from, c.to); n != c.decoded {
			t.Errorf("items %d to %d: decoded %d objects, want %d", c.from, c.to, n, c.decoded)
		}
	}
	// A succeeding leaf copies items that were encoded alone, too.
	all = groups(t, 40, 40)
	read(7, 8)
	g := w.successor(all[0])
	g.entries[0] = configEntry(t, 0, "changed")
	if n := w.write(t, f, g); n != 39 {
		t.Errorf("decoded %d objects, want 39", n)
	}
}

// TestTightBudgetKeepsCompressedBytes lists more than fits into the budget. Once the
// budget has settled, segments are decompressed when they are read again, and no object
// is decoded.
func TestTightBudgetKeepsCompressedBytes(t *testing.T) {
	w := newFixture(t)
	all := groups(t, 2000, 40)
	f := w.form(t, JSON)
	size, err := newList(f, all, 0, 2000).sizeUpTo(noBound)
	if err != nil {
		t.Fatal(err)
	}
	w.budget = NewBudget(size / 3)
	f = w.form(t, JSON)
	want := w.expectedList(t, JSON, all, 0, 2000)
	for range 3 {
		checkList(t, "all", newList(f, all, 0, 2000), want)
		collectGarbage()
	}
	before := w.decoded.Load()
	checkList(t, "all", newList(f, all, 0, 2000), want)
	if n := w.decoded.Load() - before; n > 0 {
		t.Errorf("decoded %d objects whose compressed bytes should be kept", n)
	}
	if w.budget.UsedBytes() > w.budget.LimitBytes() {
		t.Errorf("%d bytes kept of %d", w.budget.UsedBytes(), w.budget.LimitBytes())
	}
}
