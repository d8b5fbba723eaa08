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
	// Gone is set while the definition does not exist.
	Gone bool
	// Foreign is the version that an extension serves, "" if the upstream serves all. Broken is
	// set if the extension does not answer.
	Foreign string
	Broken  bool
	// Began is the time when the change to this generation was sent. Ended is the time when the
	// upstream first answered by the next generation, zero before.
	Began, Ended time.Time
	// Watched is set if a watch was opened at the upstream in this generation. WatchEnded is the
	// time when the upstream has ended this watch, zero before. A busy server sends events by a
	// generation for seconds after it answers requests by the next one, to clients and to the
	// feeds of replicas.
	Watched    bool
	WatchEnded time.Time
	// Last is the highest revision at which the upstream may have answered by the generation, 0
	// while it is not known. Objects that were written later were never sent in this form.
	Last int64
}

// Serves reports whether a version is served, in one namespace or in all.
func (g *Generation) Serves(version string, inNamespace bool) bool {
	return !g.Gone && slices.Contains(g.ServedVersions(), version) && !(inNamespace && g.ClusterScoped)
}

// Now returns the last generation that has begun.
func (d *Definition) Now() Generation {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.mu.generations) == 0 {
		return Generation{Gone: true}
	}
	return *d.mu.generations[len(d.mu.generations)-1]
}

// AnswerGenerations returns the generations by which an answer may be. sent and came are the
// times of the request and the answer. An old generation is valid for a grace after its end.
func (d *Definition) AnswerGenerations(sent, came time.Time, grace time.Duration) []Generation {
	return d.where(sent, came, grace, func(g *Generation) time.Time { return g.Ended })
}

// EventGenerations returns the generations by which an event may be, as AnswerGenerations does
// for an answer.
func (d *Definition) EventGenerations(sent, came time.Time, grace time.Duration) []Generation {
	return d.where(sent, came, grace, (*Generation).eventsEndTime)
}

// eventsEndTime returns the time of the last event that the upstream has sent by the generation,
// zero if it may send more. A watch may also have ended with the upstream, before its generation.
func (g *Generation) eventsEndTime() time.Time {
	switch {
	case g.Ended.IsZero() || g.Watched && g.WatchEnded.IsZero():
		return time.Time{}
	case g.WatchEnded.After(g.Ended):
		return g.WatchEnded
	}
	return g.Ended
}

// where returns the generations that had begun at came, and that had not ended a grace before
// sent. ended returns the end of a generation, zero if it has not ended.
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

// noteWatch notes that a watch was opened in the present generation. The caller calls ended at
// the end of the watch.
func (d *Definition) noteWatch() (ended func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.mu.generations[len(d.mu.generations)-1]
	g.Watched = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.WatchEnded = time.Now()
	}
}

// EndTime returns the end of a generation, zero if it has not ended.
func (d *Definition) EndTime(generation int) time.Time {
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

// begin notes that the change to a shape is sent now. gone is set for a deletion.
func (d *Definition) begin(s Shape, gone bool) { d.beginAs(Generation{Shape: s, Gone: gone}) }

// beginAs notes that the change to a generation is sent now.
func (d *Definition) beginAs(next Generation) {
	next.Began = time.Now()
	next.Ended = time.Time{}
	next.Last = 0
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.generations = append(d.mu.generations, &next)
}

// markSettled notes that the upstream answers by the last generation from now on.
func (d *Definition) markSettled() { d.markSettledAt(0) }

// markSettledAt is markSettled for an upstream that was restarted: no object that is written after
// a revision is sent by a former generation. Without a restart the revision is 0, because watches
// outlive a change.
func (d *Definition) markSettledAt(revision int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.mu.generations[:len(d.mu.generations)-1] {
		if g.Ended.IsZero() {
			g.Ended, g.Last = time.Now(), revision
		}
	}
}
