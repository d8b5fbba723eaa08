package encode

import (
	"math/rand/v2"
	"sync"
	"testing"
)

func segmentOf(size int) *segment { return &segment{bytes: make([]byte, size), size: int64(size)} }

func TestBudgetStaysWithinItsLimit(t *testing.T) {
	const limit = 64 << 10
	b := NewBudget(limit)
	cells := make([]cell, 200)
	owners := make([]sync.Mutex, len(cells))
	stop := make(chan struct{})
	var watcher, workers sync.WaitGroup
	watcher.Go(func() {
		for {
			if used := b.UsedBytes(); used > limit || used < 0 {
				t.Errorf("%d bytes kept of %d", used, limit)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for worker := range 16 {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 3000 {
				i := random.IntN(len(cells))
				switch random.IntN(4) {
				case 0, 1:
					// As in memos, one goroutine at a time fills a cell, and only an empty one.
					owners[i].Lock()
					if cells[i].load() == nil {
						b.keepPlain(&cells[i], segmentOf(random.IntN(4000)))
					}
					owners[i].Unlock()
				case 2:
					cells[i].load()
				case 3:
					b.drop(&cells[i])
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	watcher.Wait()
	var held int64
	for i := range cells {
		if w := cells[i].segment.Load(); w != nil {
			held += w.cost()
		}
	}
	if held != b.UsedBytes() {
		t.Errorf("cells hold %d bytes, the budget says %d", held, b.UsedBytes())
	}
	for i := range cells {
		b.drop(&cells[i])
	}
	if b.UsedBytes() != 0 {
		t.Errorf("%d bytes kept in no cell", b.UsedBytes())
	}
}

func TestBudgetKeepsWhatIsRead(t *testing.T) {
	const each = 1000
	b := NewBudget(4 * (each + segmentOverhead))
	read, others := new(cell), make([]cell, 12)
	b.keepPlain(read, segmentOf(each))
	for i := range others {
		if read.load() == nil {
			t.Fatalf("a cell that is read was evicted at arrival %d", i)
		}
		b.keepPlain(&others[i], segmentOf(each))
	}
	if others[0].segment.Load() != nil {
		t.Error("a cell that was never read was not evicted")
	}
	if others[len(others)-1].segment.Load() == nil {
		t.Error("the newest is gone")
	}
}

func TestBudgetEvictsWhatIsNoLongerRead(t *testing.T) {
	const each = 1000
	b := NewBudget(3 * (each + segmentOverhead))
	once := new(cell)
	b.keepPlain(once, segmentOf(each))
	once.load()
	for range 12 {
		b.keepPlain(new(cell), segmentOf(each))
	}
	if once.segment.Load() != nil {
		t.Error("a cell that was read once is never evicted")
	}
}

func TestBudgetOfNothing(t *testing.T) {
	for name, b := range map[string]*Budget{"nil": nil, "zero": new(Budget), "small": NewBudget(segmentOverhead)} {
		c := new(cell)
		b.keepPlain(c, segmentOf(1))
		if c.load() != nil {
			t.Errorf("%s budget keeps something", name)
		}
	}
}

func TestBudgetQueueDoesNotGrowWithDrops(t *testing.T) {
	b := NewBudget(1 << 20)
	for range 10_000 {
		c := new(cell)
		b.keepPlain(c, segmentOf(10))
		b.drop(c)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.plain.cells) > 16 {
		t.Errorf("%d cells are in the queue, want at most 16: all of them are empty", len(b.mu.plain.cells))
	}
}

// TestBudgetRefillsCells fills and drops the same cell again and again. The queue must not
// grow with it.
func TestBudgetRefillsCells(t *testing.T) {
	b := NewBudget(1 << 20)
	stays, comesAndGoes := new(cell), new(cell)
	b.keepPlain(stays, segmentOf(10))
	for range 1000 {
		b.keepPlain(comesAndGoes, segmentOf(10))
		b.drop(comesAndGoes)
	}
	b.keepPlain(comesAndGoes, segmentOf(10))
	if want := stays.load().cost() + comesAndGoes.load().cost(); b.UsedBytes() != want {
		t.Errorf("%d bytes kept, want %d", b.UsedBytes(), want)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.plain.cells) > 16 {
		t.Errorf("%d entries in the queue for two cells", len(b.mu.plain.cells))
	}
}

func BenchmarkBudgetKeepDrop(b *testing.B) {
	budget := NewBudget(1 << 20)
	w := segmentOf(4096)
	b.RunParallel(func(pb *testing.PB) {
		c := new(cell)
		for pb.Next() {
			budget.keepPlain(c, w)
			c.load()
			budget.drop(c)
		}
	})
}

// queuesFixture is a budget with room for four segments of one size, and the cells that
// were filled.
type queuesFixture struct {
	*Budget
	t *testing.T
}

const fixtureSegment = 1000

func newQueuesFixture(t *testing.T) queuesFixture {
	return queuesFixture{NewBudget(4 * segmentOf(fixtureSegment).cost()), t}
}

// fill keeps n segments and returns their cells.
func (f queuesFixture) fill(keep func(*cell, *segment), n int) []*cell {
	cells := make([]*cell, n)
	for i := range cells {
		cells[i] = new(cell)
		keep(cells[i], segmentOf(fixtureSegment))
	}
	return cells
}

// wantKept checks which cells are filled, without reading them as a client would, and that
// the budget counts the filled cells of all sets.
func (f queuesFixture) wantKept(when string, kept map[string][]*cell, want map[string][]bool) {
	f.t.Helper()
	var used int64
	for name, cells := range kept {
		for i, c := range cells {
			used += c.cost()
			if got := c.segment.Load() != nil; got != want[name][i] {
				f.t.Errorf("%s: %s segment %d is kept: %v, want %v", when, name, i, got, want[name][i])
			}
		}
	}
	if f.UsedBytes() != used {
		f.t.Errorf("%s: the budget counts %d bytes, the cells have %d", when, f.UsedBytes(), used)
	}
}

// TestBudgetPlainNeverEvictsCompressed fills the budget with compressed segments that no
// reader has read. A plain segment finds no room, or takes the room of plain ones only.
func TestBudgetPlainNeverEvictsCompressed(t *testing.T) {
	f := newQueuesFixture(t)
	compressed := f.fill(f.keepCompressed, 4)
	plain := f.fill(f.keepPlain, 1)
	all := map[string][]*cell{"compressed": compressed, "plain": plain}
	f.wantKept("a budget full of compressed segments", all, map[string][]bool{
		"compressed": {true, true, true, true}, "plain": {false},
	})

	f.drop(compressed[0])
	all["plain"] = f.fill(f.keepPlain, 3)
	f.wantKept("three plain segments for the room of one", all, map[string][]bool{
		"compressed": {false, true, true, true}, "plain": {false, false, true},
	})

	tooLarge := new(cell)
	f.keepPlain(tooLarge, segmentOf(2*fixtureSegment))
	all["too large"] = []*cell{tooLarge}
	f.wantKept("a plain segment that needs the room of two", all, map[string][]bool{
		"compressed": {false, true, true, true}, "plain": {false, false, false}, "too large": {false},
	})
}

// TestBudgetCompressedEvictsPlainFirst has compressed segments arrive in a budget that is
// full of plain ones. They evict the plain ones, even those that were read, and evict
// compressed ones once there are no plain ones left.
func TestBudgetCompressedEvictsPlainFirst(t *testing.T) {
	f := newQueuesFixture(t)
	plain := f.fill(f.keepPlain, 4)
	plain[0].load()
	all := map[string][]*cell{"plain": plain, "compressed": f.fill(f.keepCompressed, 1)}
	f.wantKept("the first compressed segment", all, map[string][]bool{
		"plain": {true, false, true, true}, "compressed": {true},
	})

	plain[0].load()
	all["compressed"] = append(all["compressed"], f.fill(f.keepCompressed, 3)...)
	f.wantKept("four compressed segments", all, map[string][]bool{
		"plain": {false, false, false, false}, "compressed": {true, true, true, true},
	})

	all["compressed"][0].load()
	all["compressed"] = append(all["compressed"], f.fill(f.keepCompressed, 1)...)
	f.wantKept("a fifth compressed segment", all, map[string][]bool{
		"plain": {false, false, false, false}, "compressed": {true, false, true, true, true},
	})
}
