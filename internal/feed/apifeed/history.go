package apifeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace/millrace/internal/feed"
)

// confirmTimeout bounds the questions about the server's history.
const confirmTimeout = 10 * time.Second

var (
	// errSentOtherwise says that the server sends an object at the same revision with other
	// bytes. The server's version, a feature gate or the schema of the resource has changed.
	errSentOtherwise = errors.New("the API server sends the same object otherwise")
	// errUnasked says that the server cannot be asked about the history.
	errUnasked = errors.New("the API server does not take the question about its history")
)

// needsLoad reports whether the sink needs all objects again after an error.
func needsLoad(err error) bool {
	return errors.Is(err, errExpired) || errors.Is(err, errSentOtherwise) || errors.Is(err, errUnasked)
}

// confirm checks after a break that the server has the history that the sink has.
func (f *Feed) confirm(ctx context.Context) error {
	if f.confirmed.is() {
		return nil
	}
	err := f.confirmHistory(ctx, f.applied.Load(), &f.witness)
	f.confirmed.set(err == nil)
	return err
}

// confirmHistory checks that the server has, at revision, the witness as the feed has read it.
// Without a witness it only checks that the server has reached the revision. The error wraps
//
//   - f.errOtherHistory, if the server has another history;
//   - errSentOtherwise, if it has the witness at its revision with other bytes;
//   - errExpired, if it no longer knows;
//   - errUnasked, if it does not take the question;
//   - feed.ErrRefused, if the feed may not read the resource.
//
// Other bytes are no other history. A default in a definition, a feature gate or an upgrade
// changes how an object is sent, but not its revision.
func (f *Feed) confirmHistory(ctx context.Context, revision int64, w *feed.Witness) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	known := w.KnownObjects()
	if len(known) == 0 {
		newest, err := f.Newest(ctx)
		if err == nil && newest < revision {
			err = f.isBehind(revision, newest)
		}
		return err
	}
	for i := range known {
		if err := f.confirmObject(ctx, revision, &known[i]); err != nil {
			return err
		}
	}
	return nil
}

// confirmObject checks that the server has an object at revision, or that it does not have
// one that was deleted.
func (f *Feed) confirmObject(ctx context.Context, revision int64, o *feed.Object) error {
	atRevision, refusal := f.readObject(ctx, o, revision)
	switch {
	case refusal == nil && atRevision.has(o):
		return nil
	case refusal == nil && !o.Deleted && atRevision.hasRevisionOf(o):
		return fmt.Errorf("%w: %s at revision %d", errSentOtherwise, o.Key, o.Revision)
	case refusal == nil && o.Deleted:
		return fmt.Errorf("%w: at revision %d %s has %s, which was deleted at %d", f.errOtherHistory, revision, f.cfg.URL, o.Key, o.Revision)
	case refusal == nil:
		return fmt.Errorf("%w: at revision %d %s no longer has what %s was at %d", f.errOtherHistory, revision, f.cfg.URL, o.Key, o.Revision)
	case isRefusedAlike(refusal):
		return refusal
	case errors.Is(refusal, feed.ErrRefused):
		return fmt.Errorf("%w: %w", errUnasked, refusal)
	}
	// The server has compacted the revision, or has not reached it, or does not answer.
	newest, err := f.readObject(ctx, o, 0)
	switch {
	case err != nil:
		return err
	case newest.revision < revision:
		return f.isBehind(revision, newest.revision)
	case errors.Is(refusal, errExpired) && newest.has(o):
		return nil
	}
	return refusal
}

// isBehind returns the error of a server that was at revision wasAt and is at isAt.
func (f *Feed) isBehind(wasAt, isAt int64) error {
	return fmt.Errorf("%w: %s was at revision %d and is at %d", f.errOtherHistory, f.cfg.URL, wasAt, isAt)
}

// readObject lists an object at revision, or at the newest revision if that is 0. The list of
// one object by its name costs the server the lookup of one key.
func (f *Feed) readObject(ctx context.Context, o *feed.Object, revision int64) (list, error) {
	collection, name := f.collectionOf(o.Key)
	parameters := url.Values{"fieldSelector": {nameSelector(name)}}
	if revision > 0 {
		setExact(parameters, revision)
	}
	body, err := f.get(ctx, collection, parameters, f.codec.mediaType())
	var found list
	if err == nil {
		found, err = f.codec.list(body)
	}
	if err != nil {
		return list{}, fmt.Errorf("confirm the history of %s at revision %d: %w", f.cfg.URL, revision, err)
	}
	return found, nil
}

// nameSelector selects an object by its name. Names of some kinds have any characters.
func nameSelector(name string) string {
	return fields.OneTermEqualSelector("metadata.name", name).String()
}

// has reports whether an object is the list's only one, unchanged. If the object is a
// deletion, has reports whether the list lacks it.
func (l *list) has(o *feed.Object) bool {
	if o.Deleted {
		return len(l.objects) == 0
	}
	return l.hasRevisionOf(o) && bytes.Equal(l.objects[0].value, o.Value)
}

// hasRevisionOf reports whether the list has one object, of the same revision as o.
func (l *list) hasRevisionOf(o *feed.Object) bool {
	return len(l.objects) == 1 && l.objects[0].revision == o.Revision
}

// collectionOf returns the URL of the collection that has an object, and its name.
func (f *Feed) collectionOf(key []byte) (collection, name string) {
	name = strings.TrimPrefix(string(key), f.cfg.Prefix)
	namespace, inNamespace, ok := strings.Cut(name, "/")
	if !ok {
		return f.cfg.URL, name
	}
	end := strings.LastIndexByte(f.cfg.URL, '/')
	return f.cfg.URL[:end] + "/namespaces/" + namespace + f.cfg.URL[end:], inNamespace
}

// judge asks Config.WentBack about a feed.ErrDoubt, and returns other errors as they are. It
// returns an error that wraps feed.ErrWentBack if all resources have another history. If only
// this resource has, the next attempt loads it again, at whatever revision. If that is not
// known, the doubt stays.
func (f *Feed) judge(ctx context.Context, err error) error {
	if !errors.Is(err, feed.ErrDoubt) || errors.Is(err, feed.ErrWentBack) {
		return err
	}
	f.confirmed.set(false)
	wentBack, unknown := f.cfg.WentBack(ctx)
	switch {
	case unknown != nil:
		return fmt.Errorf("%w; whether its server has another history is not known: %w", err, unknown)
	case wentBack:
		return fmt.Errorf("%w: %w", feed.ErrWentBack, err)
	}
	f.loaded, f.witness = false, feed.Witness{}
	f.applied.Store(0)
	return err
}

// WentBackWith reports whether f's server has another history than f, and still shares an etcd
// with the server of another feed. If the servers share an etcd, the newest revision at f's
// server lies between two revisions that the other feed's server has before and after.
//
// A server that has taken over the resource, or an etcd of the resource alone, counts its own
// revisions. It may have given the resource back since the doubt. So the history is checked
// once more, between two questions to f's server for the newest revision. If the history is
// not in doubt then, or the resource must be loaded again for another reason, WentBackWith
// returns false.
//
// Run's goroutine calls it, in Config.WentBack.
func (f *Feed) WentBackWith(ctx context.Context, other *Feed) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	var newest [4]int64
	for i, from := range []*Feed{other, f, f, other} {
		if i == 2 {
			if err := f.confirmHistory(ctx, f.applied.Load(), &f.witness); !errors.Is(err, f.errOtherHistory) {
				if needsLoad(err) {
					err = nil
				}
				return false, err
			}
		}
		var err error
		if newest[i], err = from.Newest(ctx); err != nil {
			return false, err
		}
	}
	return slices.IsSorted(newest[:]), nil
}
