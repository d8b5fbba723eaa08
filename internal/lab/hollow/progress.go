package hollow

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
)

// progressText returns a line about the state of the run. since is the time since the last line.
func (f *fleet) progressText(since time.Duration) string {
	var requests, errors, events, open int64
	f.counters.each(func(c *counter) {
		requests += c.requests.Load()
		errors += c.failures.Load()
		events += c.events.Load()
		open += c.open.Load()
	})
	perSecond := func(now int64, before *int64) string {
		n := float64(now-*before) / since.Seconds()
		*before = now
		return display.Count(n)
	}
	text := fmt.Sprintf("%s  %d of %d nodes ready, %d pods running, %d watches on %d connections, %s requests/s, %s events/s, %d errors",
		display.Seconds(time.Since(f.started).Seconds()), f.ready.Load(), f.cfg.Nodes, f.podsRunning.Load(), open, f.connections.Load(),
		perSecond(requests, &f.shownRequests), perSecond(events, &f.shownEvents), errors)
	if most := f.counters.mostFrequentError(); most != "" {
		text += ", most of them: " + most
	}
	return text
}

// mostFrequentError returns the most frequent kind of error with its request, or "" without errors.
func (s *counters) mostFrequentError() (text string) {
	most := int64(0)
	s.each(func(c *counter) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for kind, n := range c.mu.errors {
			if n > most {
				most = n
				text = fmt.Sprintf("%s %s %s: %s", c.agent, c.verb, display.Clean(c.request), kind)
			}
		}
	})
	return text
}
