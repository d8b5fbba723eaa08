package store

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// firstPage and pageBytes steer how many objects a page has: objects may be
	// as large as 1.5 MB, and pagesAhead pages and two more are in memory at a time.
	firstPage = 200
	pageBytes = 8 << 20
	maxPage   = 5000
	// pagesAhead are read while another is decoded, so that neither etcd nor the
	// server waits for the other when one of them is slow for a page.
	pagesAhead = 2
)

type page struct {
	kvs []*mvccpb.KeyValue
	err error
}

// load reads everything at the oldest revision to have, or at the newest if
// history is not wanted.
func (f *Feed) load(ctx context.Context, history bool) error {
	began := time.Now()
	from, newest, err := f.span(ctx, history)
	if err != nil {
		return err
	}
	if err := f.loadAt(ctx, from, newest); err != nil {
		return err
	}
	f.reached, f.newest = from, newest
	f.cfg.Account.Loaded()
	f.cfg.Account.Reached(from, 0, 0)
	f.cfg.Log.Info("Feed has loaded what etcd held at a revision and replays what came after; watches resume from there on",
		"revision", from, "newest", newest, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// loadAt reads everything at one revision. The next pages are read while one is
// decoded.
func (f *Feed) loadAt(ctx context.Context, revision, newest int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan page, pagesAhead)
	go f.readPages(ctx, revision, pages)
	loader := f.cfg.Sink.BeginLoad()
	for p := range pages {
		if p.err != nil {
			return p.err
		}
		loader.Add(ctx, p.kvs)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	loader.Expect(newest)
	loader.End(ctx, revision)
	return nil
}

func (f *Feed) readPages(ctx context.Context, revision int64, pages chan<- page) {
	defer close(pages)
	send := func(p page) bool {
		select {
		case pages <- p:
			return p.err == nil
		case <-ctx.Done():
			return false
		}
	}
	from, end := f.cfg.Prefix, clientv3.GetPrefixRangeEnd(f.cfg.Prefix)
	limit := int64(firstPage)
	for {
		resp, err := f.cfg.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(revision))
		if err != nil {
			send(page{err: fmt.Errorf("range %s: %w", f.cfg.Prefix, err)})
			return
		}
		if !send(page{kvs: resp.Kvs}) || !resp.More {
			return
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		limit = nextLimit(resp.Kvs)
	}
}

// nextLimit aims at pageBytes, judging by the last page.
func nextLimit(kvs []*mvccpb.KeyValue) int64 {
	var size int64
	for _, kv := range kvs {
		size += int64(len(kv.Value))
	}
	return min(maxPage, max(10, pageBytes*int64(len(kvs))/(size+1)))
}
