package watch

import "time"

// Behind tells how many events the watch was not sent, about how many bytes they
// have as they are stored, and when the first of them came, if so many of what Next
// gave were sent. Of events from before the subscription that Next has still to give,
// all of the resource are counted. Any goroutine may call it, and it costs who
// delivers nothing. It implements slo.Backlog.
func (c *Cursor) Behind(sent uint64) (events, bytes int64, oldest time.Time) {
	h, s := c.hub, c.sub
	h.mu.Lock()
	inHand := max(0, c.given-int64(sent))
	first := c.place()
	if first < s.from {
		events = inHand + int64(s.from-first) + int64(len(s.matches))
	} else if i := max(0, c.next-s.dropped-inHand); i < int64(len(s.matches)) {
		events, first = inHand+max(0, int64(len(s.matches))-(c.next-s.dropped)), s.matches[i].at
	}
	lost := s.lost
	h.mu.Unlock()
	if events == 0 || lost {
		return 0, 0, time.Time{}
	}
	oldest, size := h.log.Backlog(first)
	return events, events * size, oldest
}

// gave counts what Next gives out of a replay.
func (c *Cursor) gave(n int) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.given += int64(n)
}
