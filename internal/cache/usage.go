package cache

import "time"

// Usage is what a resource takes. Sizes are in bytes.
type Usage struct {
	Objects int
	// Values are the objects as they are held, Log what events hold beside them.
	Values, Log int64
	// Forms are wire bytes by the form's name.
	Forms map[string]int64
}

// Usage walks the leaves of the resource's tree, of which there is one for some
// tens of objects: it is for people, not for requests.
func (r *Resource) Usage() Usage {
	snapshot := r.Snapshot()
	u := Usage{Objects: snapshot.Len(), Values: snapshot.Packed, Log: r.log.Extent().Bytes, Forms: map[string]int64{}}
	for span := range snapshot.Spans("") {
		span.Memo.Usage(u.Forms)
	}
	return u
}

// Extent is how much a log holds.
type Extent struct {
	Events int
	// Bytes are those that the log's bound counts.
	Bytes int64
	// Age is that of the oldest event.
	Age time.Duration
}

// Extent is how much the log holds now.
func (l *Log) Extent() Extent {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	e := Extent{Events: len(l.mu.events), Bytes: l.mu.bytes}
	if e.Events > 0 {
		e.Age = now.Sub(l.mu.events[0].at)
	}
	return e
}

// Unclaimed counts what is held below a prefix that belongs to no registered
// resource, and its bytes.
func (c *Cache) Unclaimed(prefix string) (objects int, bytes int64) {
	for e := range c.unclaimed.Snapshot().All(prefix, "") {
		objects++
		bytes += int64(len(e.Value))
	}
	return objects, bytes
}
