package apifeed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/feed"
)

// pageObjects is how many objects a page of a list has: client-go's default.
const pageObjects = 500

// list is a list, or a page of one.
type list struct {
	revision int64
	// next is the token of the next page. It is "" in the last page.
	next    string
	objects []object
}

// loadPages hands all objects to the sink, page by page. All pages are of one revision.
func (f *Feed) loadPages(ctx context.Context) error {
	loader, next := f.cfg.Sink.BeginLoad(), ""
	f.witness = feed.Witness{}
	for {
		parameters := url.Values{"limit": {strconv.Itoa(pageObjects)}}
		if next != "" {
			parameters.Set("continue", next)
		}
		body, err := f.get(ctx, f.cfg.URL, parameters, f.codec.mediaType())
		if err != nil {
			return fmt.Errorf("list %s: %w", f.cfg.URL, err)
		}
		page, err := f.codec.list(body)
		if err != nil {
			return fmt.Errorf("read list of %s: %w", f.cfg.URL, err)
		}
		objects := make([]feed.Object, len(page.objects))
		for i := range page.objects {
			objects[i] = f.present(&page.objects[i])
			f.witness.Observe(&objects[i])
		}
		loader.Add(ctx, objects)
		if next = page.next; next != "" {
			continue
		}
		if err := f.setApplied(page.revision); err != nil {
			return err
		}
		f.endLoad(ctx, loader, page.revision)
		return nil
	}
}

// revisionAccept asks for no more of an object than its metadata.
const revisionAccept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

// Revision reads the resource's newest revision. Every write that was acknowledged before
// the call has that revision or a smaller one: a list without a resource version is a
// consistent read. After a break Revision waits until the server's history is confirmed,
// and fails while the server refuses the feed.
func (f *Feed) Revision(ctx context.Context) (int64, error) { return f.readConfirmed(ctx, f.Newest) }

// Contents implements cache.ContentsSource.
func (f *Feed) Contents(ctx context.Context) (objects []feed.Object, revision int64, err error) {
	revision, err = f.readConfirmed(ctx, func(ctx context.Context) (int64, error) {
		all, err := f.keys(ctx)
		objects = make([]feed.Object, len(all.objects))
		for i := range all.objects {
			objects[i] = feed.Object{Key: f.key(&all.objects[i]), Revision: all.objects[i].revision}
		}
		return all.revision, err
	})
	return objects, revision, err
}

// Contradict implements cache.ContentsSource. The feed loads again, or ends if all resources
// have another history.
func (f *Feed) Contradict(reason error) { f.interrupt(fmt.Errorf("%w: %w", f.errOtherHistory, reason)) }

// readConfirmed calls read, which returns a revision, again and again until the server is
// known to have the sink's history. It returns the last revision.
func (f *Feed) readConfirmed(ctx context.Context, read func(context.Context) (int64, error)) (int64, error) {
	for {
		before := f.applied.Load()
		revision, err := read(ctx)
		if err == nil && revision < before {
			err = f.isBehind(before, revision)
			f.interrupt(err)
		}
		if err == nil {
			f.requests.newest.Store(revision)
		}
		// A restored server may be at the very revision that the sink has.
		confirmed := f.confirmed.wait()
		if confirmed == nil || err != nil {
			return revision, err
		}
		if status, _ := f.RefusalStatus(); status != 0 {
			return 0, &feed.Refusal{Status: status}
		}
		select {
		case f.hurry <- struct{}{}: // the server answers
		default:
		}
		select {
		case <-confirmed:
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", errUnconfirmed, ctx.Err())
		}
	}
}

// errUnconfirmed says that the newest revision proves nothing yet.
var errUnconfirmed = errors.New("the watch broke, and the server's history is not confirmed yet")

// keysAccept asks for no more of objects than their metadata.
const keysAccept = runtime.ContentTypeProtobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io," + revisionAccept

// keys reads the names and revisions of all objects.
func (f *Feed) keys(ctx context.Context) (list, error) {
	body, err := f.get(ctx, f.cfg.URL, url.Values{}, keysAccept)
	if err != nil {
		return list{}, fmt.Errorf("read the keys of %s: %w", f.cfg.URL, err)
	}
	var reads codec = jsonCodec{}
	if bytes.HasPrefix(body, magic) {
		reads = protobufCodec{}
	}
	return reads.list(body)
}

// Newest reads the newest revision of the resource, and proves nothing of the history.
func (f *Feed) Newest(ctx context.Context) (int64, error) {
	page, err := f.firstObject(ctx, 0)
	if err != nil {
		return 0, fmt.Errorf("read the revision of %s: %w", f.cfg.URL, err)
	}
	return parseRevision(page.Metadata.ResourceVersion)
}

// countAt reads how many objects there were at revision.
func (f *Feed) countAt(ctx context.Context, revision int64) (int64, error) {
	page, err := f.firstObject(ctx, revision)
	if err != nil {
		return 0, fmt.Errorf("count the objects of %s at revision %d: %w", f.cfg.URL, revision, err)
	}
	count := int64(len(page.Items))
	if rest := page.Metadata.RemainingItemCount; rest != nil {
		count += *rest
	} else if page.Metadata.Continue != "" {
		return 0, fmt.Errorf("count the objects of %s at revision %d: the server does not say how many remain", f.cfg.URL, revision)
	}
	return count, nil
}

// firstPage is what is read of a page of one object at most.
type firstPage struct {
	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

// firstObject lists one object of the resource at revision, or at the newest revision if that
// is 0.
func (f *Feed) firstObject(ctx context.Context, revision int64) (page firstPage, err error) {
	parameters := url.Values{"limit": {"1"}}
	if revision > 0 {
		setExact(parameters, revision)
	}
	body, err := f.get(ctx, f.cfg.URL, parameters, revisionAccept)
	if err == nil {
		err = json.Unmarshal(body, &page)
	}
	return page, err
}

// setExact asks for the state at exactly revision.
func setExact(parameters url.Values, revision int64) {
	parameters.Set("resourceVersion", strconv.FormatInt(revision, 10))
	parameters.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
}

func parseRevision(text string) (int64, error) {
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision <= 0 {
		return 0, fmt.Errorf("resource version %q is no revision of etcd", text)
	}
	return revision, nil
}
