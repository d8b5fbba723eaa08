package read

import (
	"container/heap"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// bookmarkTimer says to watches when their bookmarks are due. It serves all watches of the
// process that ask for bookmarks at an interval, with one timer and no goroutine. The zero
// value is ready.
//
// Watches with the same interval form groups, which become due together, so that a
// connection sends the bookmarks of all its watches in one write. There are a few groups
// of each interval, and a connection belongs to one of them: so the connections of a
// large server do not all write at the same moment. In return, the first bookmark of a
// watch comes after a part of its interval.
//
// A watch that is due again before its bookmark was sent stays due: it is sent one
// bookmark, not two.
type bookmarkTimer struct {
	// mu is held while a group's watches are woken. Wakes take none but innermost locks.
	mu struct {
		sync.Mutex
		groups map[bookmarkGroupKey]*bookmarkGroup
		// next has all groups. The one that is due next comes first.
		next  bookmarkGroups
		timer *time.Timer
	}
}

// bookmarkPhases is the number of groups of an interval, which are due one after another
// in equal distances.
const bookmarkPhases = 8

type bookmarkGroupKey struct {
	interval time.Duration
	phase    uint64
}

// bookmarkGroup is the watches that become due together. It has at least one.
type bookmarkGroup struct {
	bookmarkGroupKey
	due     time.Time
	watches []*intervalWatch
	// index is the group's place in the heap.
	index int
}

// intervalWatch is one watch among those of the timer. Wake must not block, and must take
// none but innermost locks.
type intervalWatch struct {
	puller interface{ Wake() }
	// due says that a bookmark is to be sent. The sender clears it.
	due atomic.Bool
	// group and index are the watch's place. The timer's lock guards them.
	group *bookmarkGroup
	index int
}

// phaseSeed makes phases of addresses.
var phaseSeed = maphash.MakeSeed()

// add begins to wake a watch at an interval. connection names the watch's connection.
func (t *bookmarkTimer) add(w *intervalWatch, interval time.Duration, connection string) {
	key := bookmarkGroupKey{interval, maphash.String(phaseSeed, connection) % bookmarkPhases}
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.mu.groups[key]
	if g == nil {
		g = &bookmarkGroup{bookmarkGroupKey: key, due: key.first(time.Now())}
		if t.mu.groups == nil {
			t.mu.groups = map[bookmarkGroupKey]*bookmarkGroup{}
		}
		t.mu.groups[key] = g
		heap.Push(&t.mu.next, g)
		t.armLocked()
	}
	w.group, w.index = g, len(g.watches)
	g.watches = append(g.watches, w)
}

// remove undoes add. The watch may be woken once more.
func (t *bookmarkTimer) remove(w *intervalWatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, last := w.group, len(w.group.watches)-1
	moved := g.watches[last]
	g.watches[w.index], moved.index = moved, w.index
	g.watches[last] = nil
	if g.watches = g.watches[:last]; last == 0 {
		delete(t.mu.groups, g.bookmarkGroupKey)
		heap.Remove(&t.mu.next, g.index)
		t.armLocked()
	}
}

// armLocked sets the timer to the group that is due next.
func (t *bookmarkTimer) armLocked() {
	switch {
	case len(t.mu.next) == 0:
		t.mu.timer.Stop()
	case t.mu.timer == nil:
		t.mu.timer = time.AfterFunc(time.Until(t.mu.next[0].due), t.fire)
	default:
		t.mu.timer.Reset(time.Until(t.mu.next[0].due))
	}
}

// fire wakes the watches of the groups that are due.
func (t *bookmarkTimer) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for len(t.mu.next) > 0 && !t.mu.next[0].due.After(now) {
		g := t.mu.next[0]
		for _, w := range g.watches {
			if !w.due.Swap(true) {
				w.puller.Wake()
			}
		}
		g.due = g.due.Add(g.interval * (1 + now.Sub(g.due)/g.interval))
		heap.Fix(&t.mu.next, 0)
	}
	if len(t.mu.next) > 0 {
		t.armLocked()
	}
}

// first is the first time after now at which the group is due.
func (k bookmarkGroupKey) first(now time.Time) time.Time {
	offset := k.interval / bookmarkPhases * time.Duration(k.phase)
	elapsed := time.Duration(now.Add(-offset).UnixNano()) % k.interval
	return now.Add(k.interval - elapsed)
}

// bookmarkGroups is a heap: the group that is due next comes first. It implements
// heap.Interface.
type bookmarkGroups []*bookmarkGroup

func (h bookmarkGroups) Len() int           { return len(h) }
func (h bookmarkGroups) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h bookmarkGroups) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *bookmarkGroups) Push(x any) {
	g := x.(*bookmarkGroup)
	g.index = len(*h)
	*h = append(*h, g)
}

// Pop implements heap.Interface.
func (h *bookmarkGroups) Pop() any {
	last := len(*h) - 1
	g := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return g
}
