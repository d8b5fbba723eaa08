package changingupstream

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Outages has the times in which requests at an upstream may fail.
type Outages struct {
	mu struct {
		sync.Mutex
		spans []*span
	}
}

// Start notes the begin of an outage. The caller calls end at its end.
func (o *Outages) Start() (end func()) {
	s := &span{began: time.Now()}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.spans = append(o.mu.spans, s)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		s.ended = time.Now()
	}
}

// Overlap reports whether there was an outage between two times, or in the grace before.
func (o *Outages) Overlap(from, to time.Time, grace time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.mu.spans {
		if !s.began.After(to) && (s.ended.IsZero() || !s.ended.Add(grace).Before(from)) {
			return true
		}
	}
	return false
}

// Pause runs a disturbance while no step and no write of the script is under way. Reads of
// clients go on. After the disturbance the upstream must answer again. name is for the log.
func (s *Script) Pause(ctx context.Context, name string, disturb func() error) error {
	for _, r := range s.Resources {
		r.turn.Lock()
		defer r.turn.Unlock()
	}
	s.record("%s", name)
	end := s.Outages.Start()
	defer end()
	era := s.Eras.Now().Shape
	era.Generation++
	s.Eras.begin(era, false)
	if err := disturb(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var last int64
	for _, r := range s.Resources {
		for _, version := range r.servedVersions() {
			revision, err := s.awaitAnswer(ctx, r, version)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			last = max(last, revision)
		}
	}
	s.Eras.markSettledAt(last)
	s.record("over: %s", name)
	return nil
}

// awaitAnswer waits until the upstream lists a resource, and records the list. It returns the
// list's revision.
func (s *Script) awaitAnswer(ctx context.Context, r *Resource, version string) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, takeUpTimeout)
	defer cancel()
	for {
		sendCtx, cancel := context.WithTimeout(ctx, time.Second)
		a := s.Send(sendCtx, Get(r.Collection(version, "")))
		cancel()
		if list, err := NewList(a.Body); err == nil && a.Status == http.StatusOK {
			s.noteList(r, version, a.Generation(), list)
			return list.Revision, nil
		}
		if err := wait(ctx, poll); err != nil {
			return 0, fmt.Errorf("list %s: status %d: %s", r.Name(), a.Status, a.Message())
		}
	}
}
