package encode

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/millrace/millrace/internal/wire/entry"
)

// write writes a group in a form, checks the bytes and returns how many objects were
// decoded.
func (w *fixture) write(t *testing.T, f *Form, g group) int64 {
	t.Helper()
	want := w.expectedList(t, f.cfg.Framing, []group{g}, 0, len(g.entries))
	before := w.decoded.Load()
	var out bytes.Buffer
	if err := newList(f, []group{g}, 0, len(g.entries)).Write(&out, Identity); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Fatalf("wrote %.300q\nwant %.300q", out.Bytes(), want)
	}
	return w.decoded.Load() - before
}

// successor makes a group that replaces g.
func (w *fixture) successor(g group) group {
	next := group{memo: new(Memo), entries: slices.Clone(g.entries)}
	next.memo.Succeed(g.memo, w.budget)
	return next
}

func TestMemoEncodesOnce(t *testing.T) {
	w := newFixture(t)
	g := groups(t, 40, 40)[0]
	f := w.form(t, JSON)
	if n := w.write(t, f, g); n != 40 {
		t.Errorf("decoded %d objects, want 40", n)
	}
	if n := w.write(t, f, g); n != 0 {
		t.Errorf("decoded %d objects again", n)
	}
	if n := w.write(t, w.form(t, PrettyJSON), g); n != 40 {
		t.Errorf("decoded %d objects for another form, want 40", n)
	}
}

// TestWarm warms a group several times. It is encoded once, or never if it is not to be
// kept.
func TestWarm(t *testing.T) {
	for name, c := range map[string]struct {
		text int
		want int64
	}{"small objects": {10, 3}, "large as they are stored": {100 << 10, 0}, "large as they are encoded": {40 << 10, 3}} {
		w := newFixture(t)
		f := w.form(t, JSON)
		g := group{memo: new(Memo)}
		var stored int64
		for i := range 3 {
			e := configEntry(t, i, strings.Repeat("<", c.text)) // \u003c
			g.entries, stored = append(g.entries, e), stored+int64(e.Size())
		}
		for range 4 {
			if more, err := f.Warm(EntryRun{Memo: g.memo, Entries: g.entries}, stored); err != nil || !more {
				t.Fatalf("%s: %v, %v", name, more, err)
			}
			collectGarbage() // Weak pointers end.
		}
		if n := w.decoded.Load(); n != c.want {
			t.Errorf("%s: decoded %d objects, want %d", name, n, c.want)
		}
	}
}

// TestWarmGzip compresses a group that is kept plain, and one that is kept as zstd alone. The first LIST
// with gzip has nothing left to do, and the plain bytes are kept as before.
func TestWarmGzip(t *testing.T) {
	for _, keptPlain := range []bool{true, false} {
		w := newFixture(t)
		f := w.form(t, JSON)
		g := groups(t, 40, 40)[0]
		run := EntryRun{Memo: g.memo, Entries: g.entries}
		if more, err := f.WarmGzip(run); err != nil || !more || w.budget.UsedBytes() > 0 {
			t.Errorf("before Warm: %v, %v, %d bytes used", more, err, w.budget.UsedBytes())
		}
		if _, err := f.Warm(run, w.budget.LimitBytes()); err != nil {
			t.Fatal(err)
		}
		own, _, _ := g.memo.slotOf(f, g.entries)
		if !keptPlain {
			w.budget.drop(&own.plain)
			collectGarbage() // Weak pointers end.
		}
		if more, err := f.WarmGzip(run); err != nil || !more || own.missingDeflate() || (own.plain.segment.Load() != nil) != keptPlain {
			t.Fatalf("kept plain: %v: %v, %v, %+v", keptPlain, more, err, own.cells)
		}
		want := w.expectedList(t, JSON, []group{g}, 0, len(g.entries))
		used, decoded := w.budget.UsedBytes(), w.decoded.Load()
		var out bytes.Buffer
		if err := newList(f, []group{g}, 0, len(g.entries)).Write(&out, Gzip); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(gunzip(t, out.Bytes()), want) {
			t.Errorf("wrote %.300q", out.Bytes())
		}
		if w.budget.UsedBytes() != used || w.decoded.Load() != decoded {
			t.Errorf("a LIST kept %d bytes more, and decoded %d objects", w.budget.UsedBytes()-used, w.decoded.Load()-decoded)
		}
		w.budget.limit = w.budget.UsedBytes()
		if more, err := f.WarmGzip(run); err != nil || !more {
			t.Errorf("a group that is ready: %v, %v", more, err)
		}
		w.budget.drop(&own.deflate)
		w.budget.limit = w.budget.UsedBytes()
		if more, err := f.WarmGzip(run); err != nil || more {
			t.Errorf("without room: %v, %v", more, err)
		}
	}
}

func TestMemoCopiesWhatDidNotChange(t *testing.T) {
	w := newFixture(t)
	for name, framing := range framings {
		t.Run(name, func(t *testing.T) {
			f := w.form(t, framing)
			g := groups(t, 40, 40)[0]
			w.write(t, f, g)
			g = w.successor(g)
			g.entries[7] = configEntry(t, 7, "changed")
			if n := w.write(t, f, g); n != 1 {
				t.Errorf("decoded %d objects after one changed", n)
			}
			g = w.successor(g)
			g.entries = slices.Insert(g.entries, 20, configEntry(t, 19, "again"))
			g.entries[20].Key += "-x"
			if n := w.write(t, f, g); n != 1 {
				t.Errorf("decoded %d objects after one was added", n)
			}
			g = w.successor(g)
			g.entries = slices.Delete(g.entries, 0, 3)
			if n := w.write(t, f, g); n != 0 {
				t.Errorf("decoded %d objects after three were deleted", n)
			}
		})
	}
}

// TestMemoCopiesOverUnreadGenerations changes a leaf several times between two reads.
func TestMemoCopiesOverUnreadGenerations(t *testing.T) {
	w := newFixture(t)
	f := w.form(t, JSON)
	g := groups(t, 40, 40)[0]
	w.write(t, f, g)
	for i := range 5 {
		g = w.successor(g)
		g.entries[i] = configEntry(t, i, "changed")
	}
	if n := w.write(t, f, g); n != 5 {
		t.Errorf("decoded %d objects after five changed", n)
	}
}

// TestMemoGivesBackItems reads another single item of each generation of a group. The
// bytes of items of older generations must be given back to the budget.
func TestMemoGivesBackItems(t *testing.T) {
	w := newFixture(t)
	f := w.form(t, JSON)
	g := groups(t, 40, 40)[0]
	ask := func(i int) {
		if _, _, err := f.item(g.memo, g.entries, i); err != nil {
			t.Fatal(err)
		}
	}
	ask(0)
	one := w.budget.UsedBytes()
	for i := range 39 {
		g = w.successor(g)
		ask(i + 1)
	}
	if used := w.budget.UsedBytes(); used > 5*one {
		t.Errorf("the budget counts %d bytes, one item takes %d", used, one)
	}
	if g.memo.Retire(w.budget); w.budget.UsedBytes() != 0 {
		t.Errorf("%d bytes are kept for a memo that was retired", w.budget.UsedBytes())
	}
}

func TestMemoCopiesAfterSplit(t *testing.T) {
	w := newFixture(t)
	f := w.form(t, JSON)
	g := groups(t, 40, 40)[0]
	w.write(t, f, g)
	left := w.successor(g)
	right := group{memo: new(Memo), entries: slices.Clone(left.entries[20:])}
	right.memo.InheritFrom(left.memo)
	left.entries = left.entries[:20]
	// The half that is read first drops the old bytes, so the other may have to be
	// encoded anew. Both must be right.
	if n := w.write(t, f, left); n != 0 {
		t.Errorf("decoded %d objects of the left half", n)
	}
	t.Logf("decoded %d objects of the right half", w.write(t, f, right))
}

func TestRetiredMemoKeepsNothing(t *testing.T) {
	w := newFixture(t)
	f := w.form(t, JSON)
	g := groups(t, 40, 40)[0]
	w.write(t, f, g)
	if w.budget.UsedBytes() == 0 {
		t.Fatal("nothing kept")
	}
	g.memo.Retire(w.budget)
	if n := w.budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes kept by a retired memo", n)
	}
	for range 2 {
		collectGarbage() // Weak pointers end.
		if n := w.write(t, f, g); n != 40 {
			t.Errorf("decoded %d objects, want 40 each time", n)
		}
	}
	if n := w.budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes kept by a reader of an old snapshot", n)
	}
}

// TestBudgetDoesNotRetainEntries retires a group. Its entries must be collected, although
// the budget's queues still refer to its cells.
func TestBudgetDoesNotRetainEntries(t *testing.T) {
	w := newFixture(t)
	f := w.form(t, JSON)
	living := groups(t, 160, 40)
	gone := func() weak.Pointer[entry.Entry] {
		g := groups(t, 40, 40)[0]
		for _, other := range append(living, g) {
			w.write(t, f, other)
		}
		g.memo.Retire(w.budget)
		return weak.Make(g.entries[0])
	}()
	for range 3 {
		collectGarbage()
	}
	if e := gone.Value(); e != nil {
		t.Errorf("entry %s is still there", e.Key)
	}
	for _, g := range living {
		if n := w.write(t, f, g); n != 0 {
			t.Errorf("decoded %d objects whose bytes are kept", n)
		}
	}
}

func TestReplacedMemoKeepsNothingNew(t *testing.T) {
	w := newFixture(t)
	f := w.form(t, JSON)
	g := groups(t, 40, 40)[0]
	next := w.successor(g)
	w.write(t, f, g)
	if n := w.budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes kept for an old snapshot", n)
	}
	next.memo.Retire(w.budget)
	if n := w.budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes kept", n)
	}
}

// TestRetireGivesEverythingBack retires a leaf that has not copied its predecessor's
// bytes yet.
func TestRetireGivesEverythingBack(t *testing.T) {
	w := newFixture(t)
	g := groups(t, 40, 40)[0]
	for _, framing := range framings {
		f := w.form(t, framing)
		checkList(t, "all", newList(f, []group{g}, 0, 40), w.expectedList(t, framing, []group{g}, 0, 40))
	}
	w.successor(g).memo.Retire(w.budget)
	if n := w.budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes still kept", n)
	}
}

// TestMemoUnderLoad reads each generation of a leaf in all forms while newer generations
// are made.
func TestMemoUnderLoad(t *testing.T) {
	w := newFixture(t)
	w.budget = NewBudget(40 << 10)
	g := groups(t, 40, 40)[0]
	var readers sync.WaitGroup
	for _, framing := range framings {
		f := w.form(t, framing)
		old := g
		for generation := range 20 {
			want := w.expectedList(t, framing, []group{old}, 0, 40)
			snapshot := old
			for range 3 {
				readers.Go(func() {
					var plain, compressed bytes.Buffer
					list := newList(f, []group{snapshot}, 0, 40)
					if err := list.Write(&plain, Identity); err != nil || !bytes.Equal(plain.Bytes(), want) {
						t.Errorf("plain answer of generation %d is wrong: %v", generation, err)
					}
					if err := list.Write(&compressed, Gzip); err != nil || !bytes.Equal(gunzip(t, compressed.Bytes()), want) {
						t.Errorf("compressed answer of generation %d is wrong: %v", generation, err)
					}
				})
			}
			old = w.successor(old)
			old.entries[generation] = configEntry(t, generation, "changed")
		}
		g = old
	}
	readers.Wait()
	if used := w.budget.UsedBytes(); used > w.budget.LimitBytes() {
		t.Errorf("%d bytes kept of %d", used, w.budget.LimitBytes())
	}
	g.memo.Retire(w.budget)
	if used := w.budget.UsedBytes(); used != 0 {
		t.Errorf("%d bytes kept after the last leaf retired", used)
	}
}

// collectGarbage frees memory that only weak pointers refer to.
func collectGarbage() {
	for range 2 {
		runtime.GC()
	}
}
