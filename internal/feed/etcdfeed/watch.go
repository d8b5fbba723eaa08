package etcdfeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/feed"
)

const (
	// progressPeriod is the time between progress requests on etcd's watch. etcd answers after
	// all events, so the time of the answer tells how late events are. The answer also moves
	// the revision forward when only keys outside the prefix are written.
	progressPeriod = time.Second
	// replayPeriod is the same during a replay. The newest revision at the load may be
	// the revision of a key outside the prefix, and only a progress answer then ends the
	// replay.
	replayPeriod      = 20 * time.Millisecond
	defaultMaxSilence = 30 * time.Second
	// arrivalBuffer is the number of responses that wait here with the time of their
	// arrival. Further ones wait in etcd's client.
	arrivalBuffer = 16
)

// stampedResponse is a response of etcd's watch, and when it arrived.
type stampedResponse struct {
	clientv3.WatchResponse
	at time.Time
}

// stampArrivals adds to each response the time of its arrival. The time that a response then
// waits for earlier responses is this server's delay, not etcd's. Its goroutine ends with
// the responses or with ctx.
func (f *Feed) stampArrivals(ctx context.Context, responses clientv3.WatchChan) <-chan stampedResponse {
	out := make(chan stampedResponse, arrivalBuffer)
	go func() {
		defer close(out)
		for r := range responses {
			select {
			case out <- stampedResponse{r, f.cfg.Account.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// followWatch hands the sink all events after the applied revision, until the watch breaks.
// It always returns an error.
func (f *Feed) followWatch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := f.stampArrivals(ctx, f.cfg.Client.Watch(ctx, f.cfg.Prefix,
		clientv3.WithPrefix(), clientv3.WithRev(f.applied.Load()+1), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify(),
		// Without it a replay's events came in one message and were in memory twice.
		clientv3.WithFragment()))
	ticker := time.NewTicker(replayPeriod)
	defer ticker.Stop()
	began, lastResponse, answersProgress := time.Now(), time.Now(), false
	for {
		select {
		case resp, open := <-responses:
			if !open {
				return errors.New("watch channel closed")
			}
			if err := resp.Err(); err != nil {
				return fmt.Errorf("watch %s: %w", f.cfg.Prefix, err)
			}
			// etcd answers no progress request before the watch has had an event.
			answersProgress = answersProgress || !resp.Created
			if f.suspects(&resp) {
				if err := f.confirm(ctx); err != nil {
					return err
				}
			}
			f.apply(ctx, &resp)
			if !f.health.Following() && f.caughtUp() {
				f.health.SetFollowing()
				f.cfg.Account.WatchEstablished()
				ticker.Reset(progressPeriod)
				f.cfg.Logger.Info("Feed follows etcd", "revision", f.applied.Load(), "took", time.Since(began).Round(time.Millisecond))
			}
			lastResponse = time.Now()
		case <-ticker.C:
			if since := time.Since(lastResponse); since > f.cfg.MaxSilence {
				return fmt.Errorf("watch %s: silent for %v", f.cfg.Prefix, since.Round(time.Second))
			}
			if answersProgress {
				f.cfg.Account.ProgressRequested(f.cfg.Account.Now())
			}
			f.requestProgressOnce(ctx)
		}
	}
}

// requestProgressOnce asks for progress. While etcd is away its client takes no request, and
// would keep the feed from noticing the silence. The next tick repeats a request that was
// lost.
func (f *Feed) requestProgressOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, progressPeriod)
	defer cancel()
	_ = f.RequestProgress(ctx)
}

// apply hands a response's events or progress to the sink.
func (f *Feed) apply(ctx context.Context, resp *stampedResponse) {
	switch {
	case len(resp.Events) > 0:
		f.cfg.Sink.Received(resp.at)
		events := eventObjects(resp.Events)
		f.cfg.Sink.Apply(ctx, events)
		f.observe(events)
		applied := resp.Events[len(resp.Events)-1].Kv.ModRevision
		f.setState(applied)
		f.cfg.Account.Advance(applied, len(resp.Events), eventBytes(events))
	case resp.IsProgressNotify():
		applied := max(f.applied.Load(), resp.Header.Revision)
		f.setState(applied)
		f.cfg.Sink.Progressed(applied)
		f.cfg.Account.Advance(applied, 0, 0)
		f.cfg.Account.ProgressReceived(resp.at)
	}
}

func eventBytes(events []feed.Object) (bytes int64) {
	for i := range events {
		bytes += int64(len(events[i].Key) + len(events[i].Value))
	}
	return bytes
}
