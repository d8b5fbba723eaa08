package changingupstream

import (
	"slices"
	"sync"
	"time"
)

// Definition is a CustomResourceDefinition that a script changes.
type Definition struct {
	Names
	hook *Webhook
	mu   struct {
		sync.Mutex
		generations []*Generation
	}
}

// Generation is a state of a definition.
type Generation struct {
	Shape
	// Gone says that there is no definition.
	Gone bool
	// Foreign is the version that an extension serves, "" for none. Broken says that the
	// extension does not answer.
	Foreign string
	Broken  bool
	// Began is when the change to it was sent. Ended is when the upstream was seen to answer
	// by the next one; it is zero before.
	Began, Ended time.Time
	// Watched says that a watch was opened at the upstream in this state, and Outlived when the
	// upstream has ended it, zero before. A busy server sends events by a state for seconds after
	// it answers requests by the next one: to clients, and to the feeds of replicas.
	Watched  bool
	Outlived time.Time
	// Last is the highest revision that the upstream may have answered by the generation, once
	// that is known, and 0 before. Objects that were written later were never sent so.
	Last int64
}

// Serves says whether a version is served in a scope: in all namespaces or in one.
func (g *Generation) Serves(version string, inNamespace bool) bool {
	return !g.Gone && slices.Contains(g.Served(), version) && !(inNamespace && g.ClusterScoped)
}

// Now returns the generation that was begun last.
func (d *Definition) Now() Generation {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.mu.generations) == 0 {
		return Generation{Gone: true}
	}
	return *d.mu.generations[len(d.mu.generations)-1]
}

// Between returns the generations that an answer may be of whose request was sent at a time
// and that came at another one. An old generation is good for a grace behind its end.
func (d *Definition) Between(sent, came time.Time, grace time.Duration) []Generation {
	return d.where(sent, came, grace, func(g *Generation) time.Time { return g.Ended })
}

// BetweenEvents returns the generations that an event may be of, as Between does for an answer.
func (d *Definition) BetweenEvents(sent, came time.Time, grace time.Duration) []Generation {
	return d.where(sent, came, grace, (*Generation).eventsEnded)
}

// eventsEnded returns when the upstream has sent the last event by the generation, and zero if it
// may send more. A watch may also have ended with the upstream, before its generation.
func (g *Generation) eventsEnded() time.Time {
	switch {
	case g.Ended.IsZero() || g.Watched && g.Outlived.IsZero():
		return time.Time{}
	case g.Outlived.After(g.Ended):
		return g.Outlived
	}
	return g.Ended
}

// where returns the generations that had begun when something came, and that had not ended a grace
// before it was sent. ended returns zero for those that have not ended.
func (d *Definition) where(sent, came time.Time, grace time.Duration, ended func(*Generation) time.Time) []Generation {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Generation
	for _, g := range d.mu.generations {
		if end := ended(g); !g.Began.After(came) && (end.IsZero() || !end.Add(grace).Before(sent)) {
			all = append(all, *g)
		}
	}
	return all
}

// watch notes that a watch of the present state was opened. The caller calls ended at its end.
func (d *Definition) watch() (ended func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.mu.generations[len(d.mu.generations)-1]
	g.Watched = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.Outlived = time.Now()
	}
}

// Ended returns when a generation has ended, and zero if it has not.
func (d *Definition) Ended(generation int) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ended time.Time
	for _, g := range d.mu.generations {
		if !g.Gone && g.Shape.Generation == generation {
			ended = g.Ended
		}
	}
	return ended
}

// begin notes that the change to a generation is sent now.
func (d *Definition) begin(s Shape, gone bool) { d.beginAs(Generation{Shape: s, Gone: gone}) }

func (d *Definition) beginAs(next Generation) {
	next.Began, next.Ended, next.Last = time.Now(), time.Time{}, 0
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.generations = append(d.mu.generations, &next)
}

// settle notes that the upstream answers by the last generation.
func (d *Definition) settle() { d.settleAt(0) }

// settleAt is settle of an upstream that has started anew: nothing that is written behind a revision
// is answered by a former generation. Watches of a definition outlive its change.
func (d *Definition) settleAt(revision int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.mu.generations[:len(d.mu.generations)-1] {
		if g.Ended.IsZero() {
			g.Ended, g.Last = time.Now(), revision
		}
	}
}
