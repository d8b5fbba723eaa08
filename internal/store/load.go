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
	// as large as 1.5 MB, and pagesAhead pages and four more are in memory at a time.
	firstPage = 200
	pageBytes = 4 << 20
	maxPage   = 1000
	// fullPage is how many times the objects that a page is to have it may have.
	fullPage = 2
	// pagesAhead have come while another is decoded, so that neither etcd nor the
	// server waits for the other when one of them is slow for a page.
	pagesAhead = 1
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
	f.cfg.Account.Reloaded()
	f.cfg.Account.Advance(from, 0, 0)
	f.cfg.Logger.Info("Feed has loaded what etcd held at a revision and replays what came after; watches resume from there on",
		"revision", from, "newest", newest, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// loadAt reads everything at one revision. The next pages are read while one is
// decoded.
func (f *Feed) loadAt(ctx context.Context, revision, newest int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan page, pagesAhead)
	r := &pageReader{feed: f, revision: revision, pages: pages, reach: keyRange{prefix: f.cfg.Prefix}, keys: firstPage / fullPage}
	go func() {
		defer close(pages)
		r.read(ctx, f.cfg.Prefix, clientv3.GetPrefixRangeEnd(f.cfg.Prefix))
	}()
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

// pageReader reads pages in the order of their keys. While one is on its way the next
// is asked for: etcd makes a page by itself, and so does the client that unpacks it.
type pageReader struct {
	feed     *Feed
	revision int64
	pages    chan<- page
	reach    keyRange
	// keys is how many a page is to have.
	keys int64
}

// asked is a range that was asked for.
type asked struct {
	until string
	came  chan answer
}

type answer struct {
	*clientv3.GetResponse
	err error
}

func (r *pageReader) ask(ctx context.Context, from, limit string) asked {
	a := asked{r.reach.from(from, limit), make(chan answer, 1)}
	keys := fullPage * r.keys
	go func() {
		resp, err := r.feed.cfg.Client.Get(ctx, from, clientv3.WithRange(a.until), clientv3.WithLimit(keys), clientv3.WithRev(r.revision))
		a.came <- answer{resp, err}
	}()
	return a
}

// read reads a range. It returns false if it could not.
func (r *pageReader) read(ctx context.Context, from, until string) bool {
	for next := r.ask(ctx, from, until); ; {
		now := next
		if now.until != until {
			next = r.ask(ctx, now.until, until)
		}
		resp := <-now.came
		if resp.err != nil {
			r.send(ctx, page{err: fmt.Errorf("range %s: %w", r.feed.cfg.Prefix, resp.err)})
			return false
		}
		if n := len(resp.Kvs); n > 0 {
			if !r.send(ctx, page{kvs: resp.Kvs}) {
				return false
			}
			r.keys = pageKeys(resp.Kvs)
		}
		r.reach.read(resp.Kvs, resp.More, r.keys)
		if resp.More && !r.read(ctx, string(resp.Kvs[len(resp.Kvs)-1].Key)+"\x00", now.until) {
			return false
		}
		if now.until == until {
			return true
		}
	}
}

func (r *pageReader) send(ctx context.Context, p page) bool {
	select {
	case r.pages <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

// pageKeys aims at pageBytes, judging by the last page.
func pageKeys(kvs []*mvccpb.KeyValue) int64 {
	var size int64
	for _, kv := range kvs {
		size += int64(len(kv.Value))
	}
	return min(maxPage, max(10, pageBytes*int64(len(kvs))/(size+1)))
}
