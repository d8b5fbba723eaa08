package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// progressPeriod keeps the revision moving when only keys outside the
	// prefix are written, and replayPeriod finds soon that the past is over:
	// its last revision may be such a key's.
	progressPeriod = 5 * time.Second
	replayPeriod   = 20 * time.Millisecond
	// silence is how long a watch may say nothing although it is asked for
	// progress every few seconds. Then it is opened anew.
	silence = 30 * time.Second
)

// watch applies events from behind what the sink has until the watch breaks.
func (f *Feed) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := f.cfg.Client.Watch(ctx, f.cfg.Prefix,
		clientv3.WithPrefix(), clientv3.WithRev(f.reached+1), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	ticker := time.NewTicker(replayPeriod)
	defer ticker.Stop()
	began, heard := time.Now(), time.Now()
	for {
		select {
		case resp, open := <-responses:
			if !open {
				return errors.New("watch channel closed")
			}
			if err := resp.Err(); err != nil {
				return fmt.Errorf("watch %s: %w", f.cfg.Prefix, err)
			}
			f.take(ctx, &resp)
			if !f.healthy.Load() && f.following() {
				f.healthy.Store(true)
				ticker.Reset(progressPeriod)
				f.cfg.Log.Info("Feed follows etcd", "revision", f.reached, "took", time.Since(began).Round(time.Millisecond))
			}
			heard = time.Now()
		case <-ticker.C:
			if since := time.Since(heard); since > silence {
				return fmt.Errorf("watch %s: silent for %v", f.cfg.Prefix, since.Round(time.Second))
			}
			// Lost requests are made up for by the next.
			_ = f.RequestProgress(ctx)
		}
	}
}

// take hands a response to the sink.
func (f *Feed) take(ctx context.Context, resp *clientv3.WatchResponse) {
	switch {
	case len(resp.Events) > 0:
		f.cfg.Sink.Apply(ctx, resp.Events)
		f.reached = resp.Events[len(resp.Events)-1].Kv.ModRevision
	case resp.IsProgressNotify():
		f.reached = max(f.reached, resp.Header.Revision)
		f.cfg.Sink.Progressed(f.reached)
	}
}
