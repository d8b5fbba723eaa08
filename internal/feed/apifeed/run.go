package apifeed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

const (
	// The pauses between attempts double from the least to the longest one, which bounds how
	// late changes are after the server was away. They are random, so that the feeds of all
	// resources do not come back together.
	minBackoff = 500 * time.Millisecond
	maxBackoff = 10 * time.Second
	// maxRefusedBackoff is the longest pause while the server refuses the feed.
	maxRefusedBackoff = 5 * time.Minute
)

// Run follows the resource until the context ends, and returns the context's error. After
// errors it retries for as long as it takes, unless the error is feed.ErrWentBack. It may
// be called once.
func (f *Feed) Run(ctx context.Context) error {
	return feed.RunUntil(ctx, nil, &f.health, f.run)
}

func (f *Feed) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	helpers.Go(func() { f.answerRequests(ctx) })
	helpers.Go(func() { f.watchMovement(ctx) })
	tried := sync.OnceFunc(func() { close(f.tried) })
	defer tried()
	for backoff := minBackoff; ; {
		began := time.Now()
		err := f.judge(ctx, f.attempt(ctx, tried))
		tried()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, feed.ErrWentBack) {
			return err
		}
		if time.Since(began) > maxBackoff || needsLoad(err) && time.Since(f.loadedAt) > maxBackoff {
			backoff = minBackoff
		}
		longest := maxBackoff
		if err != nil {
			f.confirmed.set(false)
			if errors.Is(err, feed.ErrRefused) {
				longest = maxRefusedBackoff
			}
			f.noteBreak(err)
		} else if time.Since(began) > backoff {
			continue // the server ended the watch in its time
		}
		backoff = min(backoff, longest)
		f.pause(ctx, backoff/2+rand.N(backoff))
		backoff = min(2*backoff, longest)
	}
}

// attempt follows the server once, until an error, the end of a watch, or an interruption.
func (f *Feed) attempt(ctx context.Context, tried func()) error {
	attempting, end := f.attempts.begin(ctx)
	defer end()
	if f.abandonedConn != nil {
		f.retire(attempting)
	}
	err := f.learn(attempting)
	if err == nil {
		err = f.follow(attempting, tried)
	}
	if cause := context.Cause(attempting); cause != nil && ctx.Err() == nil {
		return cause
	}
	return err
}

// pause waits for d, or until Retry. If the server answers a reader meanwhile, it waits for
// minBackoff at most.
func (f *Feed) pause(ctx context.Context, d time.Duration) {
	least, all := time.NewTimer(min(d, minBackoff)), time.NewTimer(d)
	defer least.Stop()
	defer all.Stop()
	select {
	case <-least.C:
	case <-f.retry:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-all.C:
	case <-f.hurry:
	case <-f.retry:
	case <-ctx.Done():
	}
}

// setFollowing records that the feed follows.
func (f *Feed) setFollowing() {
	f.refusal.Store(nil)
	f.loggedState = nil
	f.health.SetFollowing()
}

// noteBreak records an error of an attempt. After most of them the watch is resumed. The log has
// one line for each state that a feed comes to, however often it tries.
func (f *Feed) noteBreak(err error) {
	f.health.SetBroken(err)
	f.loaded = f.loaded && !needsLoad(err)
	level, message, state := f.cfg.Logger.Warn, "Feed from the API server broke and is resumed; check that the server is up and reachable", errBroken
	switch {
	case errors.Is(err, errExpired):
		message, state = "Feed fell behind the API server and loads again; its clients have to list again", nil
	case errors.Is(err, errSentOtherwise):
		message, state = "Feed loads again from the API server, which sends objects otherwise than before; its clients have to list again", nil
	case errors.Is(err, feed.ErrDoubt) && !f.loaded:
		message, state = "Feed loads again from the API server, which has another history of this resource alone; its clients have to list again", nil
	case errors.Is(err, feed.ErrRefused):
		status := refusedStatus(err)
		message, state = "API server refuses the feed, which is tried again each few minutes; grant the user of --kubeconfig list and watch of the resource", feed.ErrRefused
		if status == http.StatusNotFound {
			level, message = f.cfg.Logger.Info, "API server does not serve the resource, and the feed waits until it does"
		}
		if !f.noteRefusal(status) {
			level = f.cfg.Logger.Debug
		}
	}
	if state != nil && state == f.loggedState {
		level = f.cfg.Logger.Debug
	}
	f.loggedState = state
	level(message, "url", f.cfg.URL, "revision", f.applied.Load(), "err", err)
}

// errBroken is the loggedState of a feed that broke for no special reason.
var errBroken = errors.New("broken")

// attempts lets other goroutines interrupt the attempt that runs, or the next one.
type attempts struct {
	mu struct {
		sync.Mutex
		// cut ends the attempt that runs. It is nil if no attempt runs.
		cut context.CancelCauseFunc
		// pending is why the next attempt ends immediately.
		pending error
	}
}

// begin returns the context of an attempt, and the function that ends it. The context's cause is
// the interruption.
func (a *attempts) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.pending != nil {
		cancel(a.mu.pending)
	}
	a.mu.cut, a.mu.pending = cancel, nil
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.mu.cut = nil
		cancel(nil)
	}
}

// interrupt ends the attempt that runs, or the next one, with an error.
func (f *Feed) interrupt(err error) {
	f.attempts.mu.Lock()
	defer f.attempts.mu.Unlock()
	if cut := f.attempts.mu.cut; cut != nil {
		cut(err)
	} else {
		f.attempts.mu.pending = err
	}
}

// loadSlot waits until the feed may load. release may be called repeatedly.
func (f *Feed) loadSlot(ctx context.Context) (release func(), err error) {
	if f.cfg.LoadSemaphore == nil {
		return func() {}, nil
	}
	select {
	case f.cfg.LoadSemaphore <- struct{}{}:
		return sync.OnceFunc(func() { <-f.cfg.LoadSemaphore }), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to load: %w", context.Cause(ctx))
	}
}
