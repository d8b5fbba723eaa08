package encode

import (
	"encoding/base64"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// stalledWriters are the connections of clients that stall. A write of a large segment
// blocks until they are released. They count the bytes of the distinct segments that they
// have.
type stalledWriters struct {
	released chan struct{}

	mu struct {
		sync.Mutex
		with map[*byte]int
	}
}

func newStalledWriters() *stalledWriters {
	s := &stalledWriters{released: make(chan struct{})}
	s.mu.with = map[*byte]int{}
	return s
}

// Write implements io.Writer. It is safe for concurrent use.
func (s *stalledWriters) Write(b []byte) (int, error) {
	if len(b) >= minDirectWrite {
		s.mu.Lock()
		s.mu.with[&b[0]] = len(b)
		s.mu.Unlock()
		<-s.released
	}
	return len(b), nil
}

func (s *stalledWriters) bytes() (total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.mu.with {
		total += n
	}
	return total
}

// largeGroups makes groups of one object each, of size bytes.
func largeGroups(tb testing.TB, n, size int, compressible bool) []group {
	tb.Helper()
	random := rand.NewChaCha8([32]byte{1})
	raw := make([]byte, size*3/4)
	all := make([]group, n)
	for i := range all {
		text := strings.Repeat("compressible ", size/13)
		if !compressible {
			if _, err := random.Read(raw); err != nil {
				tb.Fatal(err)
			}
			text = base64.StdEncoding.EncodeToString(raw)
		}
		e := configEntry(tb, i, text)
		all[i] = group{memo: new(Memo)}
		all[i].entries = append(all[i].entries, e)
	}
	return all
}

// largeReader is one form and coding in which large objects are read.
type largeReader struct {
	name string
	read func(out io.Writer, runs iter.Seq[EntryRun]) error
}

func (w *fixture) largeReaders(tb testing.TB) []largeReader {
	tb.Helper()
	var all []largeReader
	for name, framing := range framings {
		f := w.form(tb, framing)
		for _, encoding := range []Encoding{Identity, Gzip, Zstd} {
			all = append(all, largeReader{"list " + name + " " + string(encoding), func(out io.Writer, runs iter.Seq[EntryRun]) error {
				return (&List{Form: f, Meta: Meta{ResourceVersion: 4711}, Runs: runs}).Write(out, encoding)
			}})
		}
	}
	for name, framing := range map[string]Framing{"json": WatchJSON, "protobuf": WatchProtobuf} {
		f := w.watchForm(tb, framing)
		for _, encoding := range []Encoding{Identity, Gzip} {
			all = append(all, largeReader{"watch " + name + " " + string(encoding), func(out io.Writer, runs iter.Seq[EntryRun]) error {
				return (&Stream{Form: f, Writer: out, Encoding: encoding, Observe: func(int) {}}).Initial(runs)
			}})
		}
	}
	return all
}

// TestLargeSegmentsAreBounded has readers stall at a large object each. In no form may
// they hold more than the bound, or leave more than one object in the budget.
func TestLargeSegmentsAreBounded(t *testing.T) {
	const size, readers = 1 << 20, 40
	all := largeGroups(t, readers, size, false)
	zip([]byte("makes the process's encoder outside of the synctest bubbles"))
	w := newFixture(t)
	for _, form := range w.largeReaders(t) {
		t.Run(form.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := newStalledWriters()
				var group sync.WaitGroup
				for i := range readers {
					group.Go(func() {
						if err := form.read(out, runsBetween(all, i, min(i+2, readers))); err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				if got := out.bytes(); got > maxAdmittedBytes || got < maxAdmittedBytes/2 {
					t.Errorf("readers that stall have %d bytes of segments, %d allowed", got, maxAdmittedBytes)
				}
				close(out.released)
				group.Wait()
			})
			w.budget.ReleaseTransient()
			if used := w.budget.UsedBytes(); used > size {
				t.Errorf("%d bytes of %d objects of %d bytes are kept", used, readers, size)
			}
		})
	}
}

// TestLargeSegmentsThatShrinkAreKept reads large objects that compress well. They are
// compressed once for all readers.
func TestLargeSegmentsThatShrinkAreKept(t *testing.T) {
	const size, objects = 1 << 20, 4
	w := newFixture(t)
	all := largeGroups(t, objects, size, true)
	list := newList(w.form(t, JSON), all, 0, objects)
	for range 3 {
		if err := list.Write(io.Discard, Gzip); err != nil {
			t.Fatal(err)
		}
		w.budget.ReleaseTransient()
	}
	if got := w.decoded.Load(); got != objects {
		t.Errorf("decoded %d times, want %d", got, objects)
	}
}
