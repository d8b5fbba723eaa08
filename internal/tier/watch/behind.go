package watch

import "time"

// Behind returns the backlog of a watch. events is how many its client has not been sent yet,
// and bytes estimates their size as stored. oldest is when the oldest of them became visible.
// All are zero if there is no backlog, or if the watch is lost. Behind implements slo.Backlog.
//
// sent is the number of changes that Next has returned and the client was sent. A change that
// was returned and not sent counts. While the watch catches up with its subscription, all
// events of the resource that it has yet to read count. So the number is then an upper bound.
//
// Any goroutine may call Behind. It reads counts that the cursor keeps anyway, so sending
// events costs no more for it.
func (c *Cursor) Behind(sent uint64) (events, bytes int64, oldest time.Time) {
	h, s := c.hub, c.sub
	h.mu.Lock()
	unsent := max(0, c.returned-int64(sent))
	first := c.catchUpPosition()
	if first < s.from {
		events = unsent + int64(s.from-first) + int64(len(s.matches))
	} else if i := max(0, c.next-s.dropped-unsent); i < int64(len(s.matches)) {
		events, first = unsent+max(0, int64(len(s.matches))-(c.next-s.dropped)), s.matches[i].at
	}
	lost := s.lost
	h.mu.Unlock()
	if events == 0 || lost {
		return 0, 0, time.Time{}
	}
	oldest, meanBytes := h.log.Backlog(first)
	return events, events * meanBytes, oldest
}

// addReturned counts n changes that Next returns while the watch catches up.
func (c *Cursor) addReturned(n int) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.returned += int64(n)
}
