package hollow

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/display"
)

// Times between two lines of progress.
const (
	overwriteInterval = time.Second
	lineInterval      = 10 * time.Second
)

// progress says how far a run is: in one line that is written over on a terminal, and in a
// line each time elsewhere.
type progress struct {
	out       io.Writer
	overwrite bool

	mu struct {
		sync.Mutex
		width int // of the line that is to be replaced
	}
}

func newProgress(cfg *Config) *progress {
	p := &progress{out: cfg.Progress, overwrite: cfg.Overwrite}
	if p.out == nil {
		p.out = io.Discard
	}
	return p
}

// line writes a line that stays.
func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked()
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *progress) clearLocked() {
	if p.mu.width > 0 {
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.mu.width))
		p.mu.width = 0
	}
}

// show writes a line that the next one replaces.
func (p *progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.overwrite {
		fmt.Fprintln(p.out, text)
		return
	}
	p.clearLocked()
	fmt.Fprint(p.out, text)
	p.mu.width = len(text)
}

// follow shows the state again and again until the context ends.
func (p *progress) follow(ctx context.Context, state func(since time.Duration) string) {
	interval := lineInterval
	if p.overwrite {
		interval = overwriteInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			p.clearLocked()
			return
		case <-ticker.C:
			p.show(state(interval))
		}
	}
}

// state is a line about the run. since is the time since the last one.
func (f *fleet) state(since time.Duration) string {
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

// mostFrequentError says what has gone wrong most often. It is empty if nothing has.
func (s *counters) mostFrequentError() (text string) {
	most := int64(0)
	s.each(func(c *counter) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for what, n := range c.mu.errors {
			if n > most {
				most, text = n, fmt.Sprintf("%s %s %s: %s", c.agent, c.verb, display.Clean(c.request), what)
			}
		}
	})
	return text
}
