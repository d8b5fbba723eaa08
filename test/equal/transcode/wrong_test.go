package transcode

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// fieldOf is a field of one of the Go types of a kind.
type fieldOf struct {
	owner reflect.Type
	name  string
}

// mistakes are what may be wrong about a field in a table.
var mistakes = map[string]func(tag reflect.StructTag) string{
	"renamed": func(tag reflect.StructTag) string { return "x" + tag.Get("json") },
	"not left out": func(tag reflect.StructTag) string {
		return strings.ReplaceAll(strings.ReplaceAll(tag.Get("json"), ",omitempty", ""), ",omitzero", "")
	},
}

// withMistake returns the tables of a kind in which one field is wrong.
func withMistake(v *version, wrong fieldOf, mistake func(reflect.StructTag) string) (*transcode.Kind, error) {
	tables := transcode.NewTables()
	tables.Tag = func(owner reflect.Type, f reflect.StructField) reflect.StructTag {
		if owner != wrong.owner || f.Name != wrong.name {
			return f.Tag
		}
		return reflect.StructTag(fmt.Sprintf("json:%q protobuf:%q", mistake(f.Tag), f.Tag.Get("protobuf")))
	}
	return tables.Kind(v.scheme, v.kind)
}

// fieldsOf are all fields in the tables of a kind that have a name in JSON.
func fieldsOf(t *testing.T, v *version) []fieldOf {
	t.Helper()
	var all []fieldOf
	tables := transcode.NewTables()
	tables.Tag = func(owner reflect.Type, f reflect.StructField) reflect.StructTag {
		if f.Tag.Get("protobuf") != "" && !strings.HasPrefix(f.Tag.Get("json"), ",") {
			all = append(all, fieldOf{owner, f.Name})
		}
		return f.Tag
	}
	if _, err := tables.Kind(v.scheme, v.kind); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestWrongTablesOfKinds makes one field of a kind's tables wrong and sends random objects, of
// which none is chosen as a sample. Objects that meet the mistake have fingerprints that others
// without it have not, so their first one is compared, and nothing wrong is ever sent.
func TestWrongTablesOfKinds(t *testing.T) {
	const fields, objects = 2, 5
	found := map[string]int{}
	for i, v := range versions() {
		if v.tables == nil {
			continue
		}
		source := rand.NewSource(*seedFlag + int64(i))
		r, filler := rand.New(source), fuzzer.FuzzerFor(v.funcs, source, v.codecs)
		all := fieldsOf(t, v)
		for range fields {
			wrong := all[r.Intn(len(all))]
			for name, mistake := range mistakes {
				tables, err := withMistake(v, wrong, mistake)
				if err != nil {
					continue // Two fields have one name now, or the like.
				}
				l := newLoad(t, v, tables)
				for range objects {
					entry := &entry.Entry{Key: "ns/name", Revision: revision, Value: storedRandom(t, v, filler)}
					for range 2 {
						if got, want := l.send(t, entry), l.encoded(t, entry); !bytes.Equal(got, want) {
							t.Fatalf("%v: %v.%s %s: sent %s, want %s", v.kind, wrong.owner, wrong.name, name, got, want)
						}
					}
				}
				if l.proofs.Counts().Different > 0 {
					found[name]++
				}
			}
		}
	}
	t.Logf("mistakes that objects met: %v", found)
	for name := range mistakes {
		if found[name] < 20 {
			t.Errorf("only %d fields that are %s were met", found[name], name)
		}
	}
}

func storedRandom(t *testing.T, v *version, filler interface{ Fill(any) }) []byte {
	t.Helper()
	obj, err := v.scheme.New(v.internal().WithKind(v.kind.Kind))
	if err != nil {
		t.Fatal(err)
	}
	filler.Fill(obj)
	stored, err := v.store(obj)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// load sends objects of a kind through a transcoder, as a server does.
type load struct {
	version    *version
	encoder    runtime.Encoder
	proofs     *transcode.Proofs
	transcoder *transcode.Transcoder
	// change is what Kubernetes' encoder does otherwise, nil for nothing.
	change func([]byte) []byte
}

func newLoad(t *testing.T, v *version, tables *transcode.Kind) *load {
	t.Helper()
	proofs := transcode.NewProofs(transcode.Config{Sample: 1 << 30, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	return &load{
		version: v, encoder: v.encoder(t, runtime.ContentTypeJSON), proofs: proofs,
		transcoder: transcode.New(tables, transcode.ObjectJSON, v.kind.String(), proofs, nil),
	}
}

// encoded is an object as Kubernetes' encoder writes it.
func (l *load) encoded(t *testing.T, e *entry.Entry) []byte {
	t.Helper()
	obj, err := l.version.decode(e)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := l.encoder.Encode(obj, &buf); err != nil {
		t.Fatal(err)
	}
	if l.change != nil {
		return l.change(buf.Bytes())
	}
	return buf.Bytes()
}

// send returns what clients are sent of an object.
func (l *load) send(t *testing.T, e *entry.Entry) []byte {
	t.Helper()
	sent, err := l.transcoder.Append(nil, e, func(dst []byte) ([]byte, error) { return append(dst, l.encoded(t, e)...), nil })
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// changes are what Kubernetes' encoder may write otherwise than a table says.
var changes = map[string]func([]byte) []byte{
	"field renamed": func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"nodeName":`), []byte(`"node":`), 1)
	},
	"empty field not left out": func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"schedulerName":`), []byte(`"hostname":"","schedulerName":`), 1)
	},
	"other default": func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"terminationGracePeriodSeconds":30`), []byte(`"terminationGracePeriodSeconds":31`), 1)
	},
}

// TestSamplesFindWrongTables has the tables of pods become wrong while the pods' fingerprints
// are proven, which only samples can find. A table does not change in a process, so what it is
// compared with does: it makes no difference. At 1,000 objects a second, a mistake is to be
// found within a second, and nothing wrong is sent after that.
func TestSamplesFindWrongTables(t *testing.T) {
	const trials, aSecond, sample = 16, 1000, 128
	v := versionOf(t, "v1", "Pod")
	entries := pods(t, 48, 8000)
	for name, change := range changes {
		var needed []int
		for range trials {
			l := newLoad(t, v, v.tables)
			l.proofs = transcode.NewProofs(transcode.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			l.transcoder = transcode.New(v.tables, transcode.ObjectJSON, "pods", l.proofs, nil)
			for _, e := range entries {
				if right := l.send(t, e); bytes.Equal(change(right), right) {
					t.Fatalf("%s: nothing is changed", name)
				}
			}
			l.change = change
			needed = append(needed, l.sendUntilStopped(t, entries, 20*sample))
			for _, e := range entries[:8] {
				if got, want := l.send(t, e), l.encoded(t, e); !bytes.Equal(got, want) {
					t.Fatalf("%s: a wrong pod was sent after the mistake was found: %s", name, got)
				}
			}
		}
		slices.Sort(needed)
		late := len(needed) - len(slices.DeleteFunc(slices.Clone(needed), func(n int) bool { return n > aSecond }))
		t.Logf("%s: found after %d pods in the median, after %d at most; %d of %d took more than %d", name, needed[trials/2], needed[trials-1], late, trials, aSecond)
		if late > 1 {
			t.Errorf("%s: %d of %d mistakes took more than %d pods", name, late, trials, aSecond)
		}
	}
}

// sendUntilStopped returns how many entries were sent until a difference was found.
func (l *load) sendUntilStopped(t *testing.T, entries []*entry.Entry, most int) int {
	t.Helper()
	for n := 1; n <= most; n++ {
		l.send(t, entries[n%len(entries)])
		if c := l.proofs.Counts(); c.Last != nil && c.Last.Stopped {
			return n
		}
	}
	t.Fatalf("not found in %d objects", most)
	return 0
}
