package encode

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/wire/entry"
)

// futureField is a field that this version's types do not know.
const futureField = `"future":{"a":[null,1e3]},`

// asSent returns groups whose entries are JSON as a server sends it alone, and what changes a
// text of Kubernetes' encoder to what that server would write.
func (w *fixture) asSent(t *testing.T, all []group) (sent []group, change func([]byte) []byte) {
	t.Helper()
	change = func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte(`"data":{`), []byte(futureField+`"data":{`))
	}
	for _, g := range all {
		made := group{memo: new(Memo)}
		for _, e := range g.entries {
			value := bytes.TrimSuffix(change(w.alone(t, e)), []byte("\n"))
			made.entries = append(made.entries, &entry.Entry{Key: e.Key, Revision: e.Revision, Value: value})
		}
		sent = append(sent, made)
	}
	return sent, change
}

// alone is an entry as Kubernetes' encoder answers a GET.
func (w *fixture) alone(t *testing.T, e *entry.Entry) []byte {
	t.Helper()
	obj, err := w.decode(e)
	if err != nil {
		t.Fatal(err)
	}
	encoder, _ := w.encoder(t, JSON)
	var text bytes.Buffer
	if err := encoder.Encode(obj, &text); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// TestVerbatim compares lists, objects and frames of a verbatim form with those of
// Kubernetes' encoder, with a field that the types do not know.
func TestVerbatim(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	stored := groups(t, 20, 4)
	sent, change := w.asSent(t, stored)
	empty := []byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}` + "\n")
	f := NewVerbatimForm(VerbatimConfig{Name: "v1 json", Budget: w.budget, EmptyList: func() []byte { return empty }})
	for _, part := range [][2]int{{0, 20}, {3, 11}, {5, 6}, {2, 2}} {
		for range 3 { // passed, kept, and found
			var got bytes.Buffer
			if err := newList(f, sent, part[0], part[1]).Write(&got, Identity); err != nil {
				t.Fatal(err)
			}
			if want := change(w.expectedList(t, JSON, stored, part[0], part[1])); got.String() != string(want) {
				t.Fatalf("%v\ngot  %s\nwant %s", part, got.String(), want)
			}
		}
	}
	frames := NewVerbatimForm(VerbatimConfig{Name: "v1 json watch", Watch: true, Budget: w.budget})
	for i, e := range sent[2].entries {
		original := stored[2].entries[i]
		got, err := f.Object(EntryRun{Memo: sent[2].memo, Entries: sent[2].entries, From: i, To: i + 1})
		if want := change(w.alone(t, original)); err != nil || string(got) != string(want) {
			t.Fatalf("%v\ngot  %s\nwant %s", err, got, want)
		}
		deleted := original.Clone()
		deleted.Revision = 987654
		frame, err := frames.Event(&Change{Frames: new(Frames), Kind: watch.Deleted, Entry: e, Revision: deleted.Revision})
		if err != nil {
			t.Fatal(err)
		}
		if want := WatchJSON.appendFrame(nil, watch.Deleted, change(w.alone(t, deleted))); string(frame.bytes) != string(want) {
			t.Fatalf("got  %s\nwant %s", frame.bytes, want)
		}
	}
}

// TestVerbatimRefuses checks what a verbatim form cannot write: pages, lists before the empty
// one is known, objects of other shapes, and what is no bytes of the other server.
func TestVerbatimRefuses(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	sent, _ := w.asSent(t, groups(t, 4, 4))
	var empty []byte
	f := NewVerbatimForm(VerbatimConfig{EmptyList: func() []byte { return empty }})
	if err := newList(f, sent, 0, 4).Write(new(bytes.Buffer), Identity); !errors.Is(err, ErrShape) {
		t.Errorf("a list before the empty one is known: %v", err)
	}
	empty = []byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}` + "\n")
	page := newList(f, sent, 0, 4)
	page.Meta.Continue = "token"
	if err := page.Write(new(bytes.Buffer), Identity); !errors.Is(err, ErrShape) {
		t.Errorf("a page: %v", err)
	}
	odd := []group{{memo: new(Memo), entries: []*entry.Entry{{Key: "team/odd", Revision: 5, Value: []byte(`{"metadata":{"resourceVersion":"5"}}`)}}}}
	err := newList(f, odd, 0, 1).Write(new(bytes.Buffer), Identity)
	var failed *EntryError
	if !errors.Is(err, ErrShape) || !errors.As(err, &failed) || failed.Key != "team/odd" {
		t.Errorf("an object without a kind: %v", err)
	}
	if err := (rawEncoder{}).Encode(&runtime.Unknown{Raw: []byte("x")}, new(strings.Builder)); err != nil {
		t.Error(err)
	}
	if err := (rawEncoder{}).Encode(nil, new(strings.Builder)); !errors.Is(err, ErrShape) {
		t.Errorf("no bytes: %v", err)
	}
}
