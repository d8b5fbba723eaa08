package etcdfeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/feed"
)

const (
	// firstPageLimit is the largest number of objects in the first page. Later pages aim
	// at pageBytes, with minPageKeys to maxPageKeys objects; a request allows limitFactor
	// times as many. Objects may be as large as 1.5 MB.
	firstPageLimit = 200
	pageBytes      = 4 << 20
	minPageKeys    = 10
	maxPageKeys    = 1000
	// limitFactor times the expected number of objects is the limit of a page's request.
	limitFactor = 2
	// bufferedPages is the number of pages that wait while a page is decoded. With one, neither
	// etcd nor the decoder waits when one of them is slow for a page.
	bufferedPages = 1
)

// page is the objects of one range request, or why it failed.
type page struct {
	objects []feed.Object
	err     error
}

// load hands all objects to the sink: the objects at the oldest revision within bounds
// if history is true, and otherwise at the newest revision. A checkpoint may take the
// place of the first load.
func (f *Feed) load(ctx context.Context, history bool) error {
	if f.cfg.Checkpoint != nil && !f.checkpointTried {
		resumed, err := f.resume(ctx)
		if resumed || err != nil && !errors.Is(err, feed.ErrUnusable) {
			return err
		}
		if f.checkpointTried = true; err != nil {
			f.cfg.Logger.Warn("Checkpoint is not used, and objects are loaded from etcd", "reason", err)
		}
	}
	began := time.Now()
	from, newest, err := f.loadRevisions(ctx, history)
	if err != nil {
		return err
	}
	if err := f.loadAt(ctx, from, newest); err != nil {
		return err
	}
	f.setLoaded(from, newest)
	f.cfg.Logger.Info("Feed has loaded what etcd held at a revision and replays what came after; watches resume from there on",
		"revision", from, "newest", newest, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// setLoaded records the revision that the sink was loaded at, and etcd's newest revision.
func (f *Feed) setLoaded(revision, newest int64) {
	f.setState(revision)
	f.newestAtLoad = newest
	f.cfg.Account.Loaded()
	f.cfg.Account.Advance(revision, 0, 0)
}

// loadAt hands the objects of one revision to the sink.
func (f *Feed) loadAt(ctx context.Context, revision, newest int64) error {
	loader := f.cfg.Sink.BeginLoad()
	f.witness = feed.Witness{}
	if err := f.loadPages(ctx, loader, &pageReader{feed: f, revision: revision, stream: f.cfg.Stream}, f.cfg.Prefix); err != nil {
		return err
	}
	loader.Expect(newest)
	loader.End(ctx, revision)
	return nil
}

// loadPages adds the objects below a prefix to a loader. The next pages are read while the
// loader decodes one.
func (f *Feed) loadPages(ctx context.Context, loader feed.Loader, r *pageReader, prefix string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan page, bufferedPages)
	r.pages, r.pageEnds, r.pageKeys = pages, pageEndEstimator{prefix: prefix}, firstPageLimit/limitFactor
	go func() {
		defer close(pages)
		if r.stream && r.readStream(ctx) {
			return
		}
		r.readRange(ctx, prefix, clientv3.GetPrefixRangeEnd(prefix))
	}()
	for p := range pages {
		if p.err != nil {
			return p.err
		}
		f.observe(p.objects)
		loader.Add(ctx, p.objects)
	}
	return ctx.Err()
}

// pageReader reads pages in the order of their keys. Two requests are under way: etcd collects
// a page while the client unpacks the page before. A range with more keys than its limit is
// read by a nested readRange, which has one more request under way meanwhile.
type pageReader struct {
	feed     *Feed
	revision int64
	// stream says that all objects of the feed are asked for in one stream first.
	stream   bool
	pages    chan<- page
	pageEnds pageEndEstimator
	// pageKeys is the number of objects that the next page should have.
	pageKeys int64
}

// pendingRange is a request for the range up to end. Its response comes once.
type pendingRange struct {
	end      string
	response chan rangeResponse
}

type rangeResponse struct {
	*clientv3.GetResponse
	err error
}

// request requests a page that begins at from and ends at limit or before.
func (r *pageReader) request(ctx context.Context, from, limit string) pendingRange {
	pending := pendingRange{r.pageEnds.endFor(from, limit), make(chan rangeResponse, 1)}
	keys := limitFactor * r.pageKeys
	go func() {
		resp, err := r.feed.cfg.Client.Get(ctx, from, clientv3.WithRange(pending.end), clientv3.WithLimit(keys), clientv3.WithRev(r.revision))
		pending.response <- rangeResponse{resp, err}
	}()
	return pending
}

// readRange sends the pages of a range. It returns false after an error, which it has
// sent, or at the context's end. If a response is cut short by its limit, readRange reads
// what is left of the page's range before the next page.
func (r *pageReader) readRange(ctx context.Context, from, until string) bool {
	for next := r.request(ctx, from, until); ; {
		current := next
		if current.end != until {
			next = r.request(ctx, current.end, until)
		}
		resp := <-current.response
		if resp.err != nil {
			r.send(ctx, page{err: fmt.Errorf("range %s: %w", r.feed.cfg.Prefix, resp.err)})
			return false
		}
		if n := len(resp.Kvs); n > 0 {
			if !r.send(ctx, page{objects: Objects(resp.Kvs)}) {
				return false
			}
			r.pageKeys = keysPerPage(resp.Kvs)
		}
		r.pageEnds.observe(resp.Kvs, resp.More, r.pageKeys)
		if resp.More && !r.readRange(ctx, string(resp.Kvs[len(resp.Kvs)-1].Key)+"\x00", current.end) {
			return false
		}
		if current.end == until {
			return true
		}
	}
}

// send returns false at the context's end.
func (r *pageReader) send(ctx context.Context, p page) bool {
	select {
	case r.pages <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

// keysPerPage returns the number of objects that have about pageBytes, judging by the last
// page.
func keysPerPage(kvs []*mvccpb.KeyValue) int64 {
	var size int64
	for _, kv := range kvs {
		size += int64(len(kv.Value))
	}
	return min(maxPageKeys, max(minPageKeys, pageBytes*int64(len(kvs))/(size+1)))
}
