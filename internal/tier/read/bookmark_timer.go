package read

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
)

// bookmarkTimer tells watches when their bookmarks are due. It serves all watches of a Tier
// that ask for bookmarks at an interval, with one timer and no goroutine of its own. The zero
// value is ready.
//
// Watches with the same interval form groups, which become due together. So a connection
// sends the bookmarks of all its watches in one write, and workers that are awake go on
// with the next connection. That halves the cost of a bookmark. Beyond maxGroup watches,
// further connections form further groups, whose times lie between the times of the other
// groups. So the bookmarks of a large server do not all delay events at the same moment.
//
// A watch that is due again before its bookmark was sent stays due: it is sent one
// bookmark, not two.
type bookmarkTimer struct {
	// mu is held while a group's watches are woken. Wakes take none but innermost locks.
	mu struct {
		sync.Mutex
		// groups has the groups of each interval, by phase. Nil stands for a group without
		// watches.
		groups map[time.Duration]*[bookmarkPhases]*bookmarkGroup
		// next has all groups. The one that is due next comes first.
		next bookmarkGroups
		// timer fires when that group is due. It is nil before the first group.
		timer *time.Timer
	}
}

const (
	// bookmarkPhases bounds the groups of an interval, which are due one after another in
	// equal distances.
	bookmarkPhases = 8
	// maxGroup is the number of watches from which a group takes no more connections,
	// unless all groups of the interval have as many. Their bookmarks take workers about
	// 2 ms.
	maxGroup = 1024
)

// phaseOrder is the order in which phases get groups: each phase is far from the phases
// before it.
var phaseOrder = [bookmarkPhases]int{0, 4, 2, 6, 1, 5, 3, 7}

// bookmarkGroup is the watches that become due together. It has at least one.
type bookmarkGroup struct {
	interval time.Duration
	// phase is the group's index among the groups of the interval.
	phase int
	// due is when the group is due next.
	due     time.Time
	watches []*intervalWatch
	// connections has the number of watches of each connection.
	connections map[string]int
	// index is the group's place in the heap.
	index int
}

// intervalWatch is one watch of the timer.
type intervalWatch struct {
	// puller's Wake must not block, and must take none but innermost locks.
	puller interface{ Wake() }
	// due says that a bookmark is to be sent. The sender clears it.
	due atomic.Bool
	// connection names the watch's connection.
	connection string
	// group and index are the watch's place in bookmarkGroup.watches. The timer's lock
	// guards them.
	group *bookmarkGroup
	index int
}

// add begins to wake a watch at an interval.
func (t *bookmarkTimer) add(w *intervalWatch, interval time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groupLocked(interval, w.connection)
	w.group, w.index = g, len(g.watches)
	g.watches = append(g.watches, w)
	g.connections[w.connection]++
}

// groupLocked returns the group of the interval that has watches of a connection. If there is
// none, it returns the smallest group, or a new one if that is full and there are fewer than
// bookmarkPhases.
func (t *bookmarkTimer) groupLocked(interval time.Duration, connection string) *bookmarkGroup {
	groups := t.mu.groups[interval]
	if groups == nil {
		groups = new([bookmarkPhases]*bookmarkGroup)
		if t.mu.groups == nil {
			t.mu.groups = map[time.Duration]*[bookmarkPhases]*bookmarkGroup{}
		}
		t.mu.groups[interval] = groups
	}
	var smallest *bookmarkGroup
	free := -1
	for _, phase := range phaseOrder {
		g := groups[phase]
		switch {
		case g == nil && free < 0:
			free = phase
		case g == nil:
		case g.connections[connection] > 0:
			return g
		case smallest == nil || len(g.watches) < len(smallest.watches):
			smallest = g
		}
	}
	if free < 0 || smallest != nil && len(smallest.watches) < maxGroup {
		return smallest
	}
	g := &bookmarkGroup{interval: interval, phase: free, connections: map[string]int{}}
	g.due = g.first(time.Now())
	groups[free] = g
	heap.Push(&t.mu.next, g)
	t.armLocked()
	return g
}

// remove undoes add.
func (t *bookmarkTimer) remove(w *intervalWatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, last := w.group, len(w.group.watches)-1
	moved := g.watches[last]
	g.watches[w.index], moved.index = moved, w.index
	g.watches[last] = nil
	g.watches = g.watches[:last]
	if g.connections[w.connection]--; g.connections[w.connection] == 0 {
		delete(g.connections, w.connection)
	}
	if last > 0 {
		return
	}
	groups := t.mu.groups[g.interval]
	if groups[g.phase] = nil; *groups == [bookmarkPhases]*bookmarkGroup{} {
		delete(t.mu.groups, g.interval)
	}
	heap.Remove(&t.mu.next, g.index)
	t.armLocked()
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

// first returns the first time after now at which the group is due.
func (g *bookmarkGroup) first(now time.Time) time.Time {
	offset := g.interval / bookmarkPhases * time.Duration(g.phase)
	elapsed := time.Duration(now.Add(-offset).UnixNano()) % g.interval
	return now.Add(g.interval - elapsed)
}

// bookmarkGroups is a heap, a heap.Interface: the group that is due next comes first.
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
