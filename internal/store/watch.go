package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// heartbeat is how often etcd's watch is asked for its progress. The answer is
	// behind all events, so its time tells how late these are. It also keeps the
	// revision moving when only keys outside the prefix are written. replayPeriod finds
	// soon that the past is over: its last revision may be such a key's.
	heartbeat    = time.Second
	replayPeriod = 20 * time.Millisecond
	// silence is how long a watch may say nothing although it is asked for
	// progress every second. Then it is opened anew.
	silence = 30 * time.Second
	// stamped is how many responses wait with the time when they came. Others wait in
	// etcd's client.
	stamped = 16
)

// response is what etcd's watch said, and when.
type response struct {
	clientv3.WatchResponse
	at time.Time
}

// stamp notes when responses come: how long they wait for those before them is this
// server's time. It ends with the responses, or with ctx.
func (f *Feed) stamp(ctx context.Context, responses clientv3.WatchChan) <-chan response {
	out := make(chan response, stamped)
	go func() {
		defer close(out)
		for r := range responses {
			select {
			case out <- response{r, f.cfg.Account.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// watch applies events from behind what the sink has until the watch breaks.
func (f *Feed) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := f.stamp(ctx, f.cfg.Client.Watch(ctx, f.cfg.Prefix,
		clientv3.WithPrefix(), clientv3.WithRev(f.reached+1), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify(),
		// One message with all of a replay's events would be in memory twice.
		clientv3.WithFragment()))
	ticker := time.NewTicker(replayPeriod)
	defer ticker.Stop()
	began, heard, answers := time.Now(), time.Now(), false
	for {
		select {
		case resp, open := <-responses:
			if !open {
				return errors.New("watch channel closed")
			}
			if err := resp.Err(); err != nil {
				return fmt.Errorf("watch %s: %w", f.cfg.Prefix, err)
			}
			// Before its first revision a watch is not answered, for nothing has happened.
			answers = answers || !resp.Created
			f.take(ctx, &resp)
			if !f.healthy.Load() && f.following() {
				f.healthy.Store(true)
				f.cfg.Account.WatchEstablished()
				ticker.Reset(heartbeat)
				f.cfg.Logger.Info("Feed follows etcd", "revision", f.reached, "took", time.Since(began).Round(time.Millisecond))
			}
			heard = time.Now()
		case <-ticker.C:
			if since := time.Since(heard); since > silence {
				return fmt.Errorf("watch %s: silent for %v", f.cfg.Prefix, since.Round(time.Second))
			}
			if answers {
				f.cfg.Account.ProgressRequested(f.cfg.Account.Now())
			}
			// Lost requests are made up for by the next.
			_ = f.RequestProgress(ctx)
		}
	}
}

// take hands a response to the sink.
func (f *Feed) take(ctx context.Context, resp *response) {
	switch {
	case len(resp.Events) > 0:
		f.cfg.Sink.Received(resp.at)
		f.cfg.Sink.Apply(ctx, resp.Events)
		f.reached = resp.Events[len(resp.Events)-1].Kv.ModRevision
		f.cfg.Account.Advance(f.reached, len(resp.Events), size(resp.Events))
	case resp.IsProgressNotify():
		f.reached = max(f.reached, resp.Header.Revision)
		f.cfg.Sink.Progressed(f.reached)
		f.cfg.Account.Advance(f.reached, 0, 0)
		f.cfg.Account.ProgressReceived(resp.at)
	}
}

func size(events []*clientv3.Event) (bytes int64) {
	for _, e := range events {
		bytes += int64(len(e.Kv.Key) + len(e.Kv.Value))
	}
	return bytes
}
