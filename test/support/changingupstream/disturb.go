package changingupstream

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Outages are the times in which requests at an upstream may fail.
type Outages struct {
	mu struct {
		sync.Mutex
		spans []*span
	}
}

// Begin notes that an outage begins. The result notes its end.
func (o *Outages) Begin() (end func()) {
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

// During says whether there was an outage between two times, or a grace before.
func (o *Outages) During(from, to time.Time, grace time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.mu.spans {
		if !s.began.After(to) && (s.ended.IsZero() || !s.ended.Add(grace).Before(from)) {
			return true
		}
	}
	return false
}

// Pause has a disturbance happen while no step of the script is under way and nobody needs the
// upstream. Writes and reads of clients go on. Behind it the upstream has to answer again.
func (s *Script) Pause(ctx context.Context, what string, disturb func() error) error {
	for _, r := range s.Resources {
		r.turn.Lock()
		defer r.turn.Unlock()
	}
	s.tell("%s", what)
	end := s.Outages.Begin()
	defer end()
	era := s.Eras.Now().Shape
	era.Generation++
	s.Eras.begin(era, false)
	if err := disturb(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var last int64
	for _, r := range s.Resources {
		for _, version := range r.served() {
			revision, err := s.answers(ctx, r, version)
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			last = max(last, revision)
		}
	}
	s.Eras.settleAt(last)
	s.tell("over: %s", what)
	return nil
}

// answers waits until the upstream lists a resource, and records what it lists. It returns the
// revision of the list.
func (s *Script) answers(ctx context.Context, r *Resource, version string) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, takeUpTimeout)
	defer cancel()
	for {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		a := s.Send(asked, Get(r.Collection(version, "")))
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
