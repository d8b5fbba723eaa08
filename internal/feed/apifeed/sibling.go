package apifeed

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/feed"
)

// Sibling is another replica in front of the server that a Feed follows. The fields are as in
// Config.
type Sibling struct {
	Client *http.Client
	URL    string
}

const (
	// siblingTimeout bounds the load from a sibling, and siblingSilence the time in which the
	// sibling sends nothing. This replica is not ready meanwhile, and could load from the server.
	siblingTimeout = 2 * time.Minute
	siblingSilence = 10 * time.Second
)

// trySibling loads the objects of the sibling, unless something is loaded already or the
// sibling was tried before. It fails if the server does not answer: then nothing is read, and
// the sibling may be tried again. Whatever else happens, the sibling is not tried again. The
// sibling's cluster and version were checked at the start, and may be others at a later load.
func (f *Feed) trySibling(ctx context.Context) error {
	if f.cfg.Sibling == nil || f.siblingTried {
		return nil
	}
	if f.loaded {
		f.siblingTried = true
		return nil
	}
	// Every server that answers has reached revision 0.
	if err := f.confirmHistory(ctx, 0, &feed.Witness{}); err != nil {
		return err
	}
	err := f.loadSibling(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f.siblingTried = true; err != nil {
		f.witness = feed.Witness{}
		f.cfg.Logger.Warn("Objects are loaded from the API server, and not from the replica that --start-from names", "url", f.cfg.URL, "reason", err)
	}
	return nil
}

// loadSibling hands the sink the objects that the sibling has. They have the state of one
// revision, which need not be the newest: the watch of the server begins after it. The server
// is asked for the newest of the objects and for their number only. If loadSibling fails, it
// has ended no load.
func (f *Feed) loadSibling(ctx context.Context) error {
	began := time.Now()
	initial := &initialEvents{loader: f.cfg.Sink.BeginLoad()}
	f.witness = feed.Witness{}
	revision, err := f.readSibling(ctx, initial)
	if err != nil || !f.witness.HasObject() {
		return err // without objects a load from the server costs as little
	}
	if err := f.confirmHistory(ctx, revision, &f.witness); err != nil {
		return err
	}
	if err := f.confirmCount(ctx, revision, initial.objects); err != nil {
		return err
	}
	initial.loader.Add(ctx, initial.batch)
	f.endLoad(ctx, initial.loader, revision)
	f.applied.Store(revision)
	f.setLoaded()
	f.cfg.Logger.Info("Feed has loaded the objects of another replica and follows the API server from there on",
		"url", f.cfg.URL, "replica", f.cfg.Sibling.URL, "revision", revision, "objects", initial.objects, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// confirmCount checks that the server had that many objects at revision. The witness does not
// show histories that part after it. With creations or deletions since, their numbers differ
// unless there are as many creations as deletions. Changes of other objects do not show.
func (f *Feed) confirmCount(ctx context.Context, revision int64, objects int) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	count, err := f.countAt(ctx, revision)
	if err == nil && count != int64(objects) {
		err = fmt.Errorf("%s has %d objects at revision %d, where %s had %d", f.cfg.Sibling.URL, objects, revision, f.cfg.URL, count)
	}
	return err
}

// readSibling reads all objects of a sibling, and returns their revision. At resource version
// 0 a replica sends what it has, without asking its server.
func (f *Feed) readSibling(ctx context.Context, initial *initialEvents) (int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, siblingTimeout, fmt.Errorf("%s has not sent all objects within %v", f.cfg.Sibling.URL, siblingTimeout))
	defer cancel()
	from := &request{client: f.cfg.Sibling.Client, collection: f.cfg.Sibling.URL, accept: f.codec.watchMediaType(), silence: siblingSilence, plain: f.cfg.Uncompressed}
	from.parameters = url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(int(siblingTimeout / time.Second))},
		"sendInitialEvents": {"true"}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}, "resourceVersion": {"0"},
	}
	resp, err := from.send(ctx)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	next := f.codec.frames(bufio.NewReaderSize(resp.Body, readBuffer))
	for {
		event, err := next()
		if err != nil {
			return 0, fmt.Errorf("read watch of %s: %w", f.cfg.Sibling.URL, err)
		}
		switch {
		case event.kind == apiwatch.Error:
			return 0, f.watchError(event.status)
		case event.kind == apiwatch.Bookmark && event.object.endsInitial:
			return event.object.revision, nil
		case event.kind != apiwatch.Added:
			return 0, fmt.Errorf("watch %s: %s among the initial events", f.cfg.Sibling.URL, event.kind)
		}
		if err := f.addInitial(ctx, initial, &event.object); err != nil {
			return 0, err
		}
	}
}
