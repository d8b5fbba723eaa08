package apifeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// confirmTimeout bounds the questions about the server's history.
const confirmTimeout = 10 * time.Second

// confirm checks after a break that the server has the history that the sink has.
func (f *Feed) confirm(ctx context.Context) error {
	if f.confirmed.Load() {
		return nil
	}
	err := f.confirmHistory(ctx, f.applied.Load(), f.witness)
	f.confirmed.Store(err == nil)
	return err
}

// confirmHistory checks that the server has, at a revision, the witness as the feed has
// read it. The error wraps feed.ErrWentBack if it has another history, errSentOtherwise if it
// has the witness at its revision with other bytes, and errExpired if it no longer knows.
// Other bytes are no other history: a default in a definition, a feature gate and an upgrade
// change what is sent of an object, and neither move it to another revision nor remove it. A nil witness proves only that the server has reached the revision.
func (f *Feed) confirmHistory(ctx context.Context, revision int64, witness *feed.Object) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	if witness == nil {
		newest, err := f.newest(ctx)
		if err == nil && newest < revision {
			err = f.isBehind(revision, newest)
		}
		return err
	}
	then, refusal := f.readWitness(ctx, witness, revision)
	switch {
	case refusal == nil && then.has(witness):
		return nil
	case refusal == nil && then.hasRevisionOf(witness):
		return fmt.Errorf("%w: %s at revision %d", errSentOtherwise, witness.Key, witness.Revision)
	case refusal == nil:
		return fmt.Errorf("%w: at revision %d %s no longer has what %s was at %d", feed.ErrWentBack, revision, f.cfg.URL, witness.Key, witness.Revision)
	}
	// The server has compacted the revision, or has not reached it, or does not answer.
	now, err := f.readWitness(ctx, witness, 0)
	switch {
	case err != nil:
		return err
	case now.revision < revision:
		return f.isBehind(revision, now.revision)
	case errors.Is(refusal, errExpired) && now.has(witness):
		return nil
	}
	return refusal
}

// isBehind is the error of a server that has not reached a revision.
func (f *Feed) isBehind(before, now int64) error {
	return fmt.Errorf("%w: %s was at revision %d and is at %d", feed.ErrWentBack, f.cfg.URL, before, now)
}

// readWitness reads the witness at a revision, or the newest one if that is 0. The list of
// one object by its name costs the server the look-up of one key.
func (f *Feed) readWitness(ctx context.Context, witness *feed.Object, revision int64) (list, error) {
	collection, name := f.collectionOf(witness.Key)
	parameters := url.Values{"fieldSelector": {"metadata.name=" + name}}
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

// has reports whether the witness is the list's only object.
func (l *list) has(witness *feed.Object) bool {
	return l.hasRevisionOf(witness) && bytes.Equal(l.objects[0].value, witness.Value)
}

// hasRevisionOf reports whether the list's only object was written at the revision of the
// witness.
func (l *list) hasRevisionOf(witness *feed.Object) bool {
	return len(l.objects) == 1 && l.objects[0].revision == witness.Revision
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

// observe keeps the newest object as the witness.
func (f *Feed) observe(o *feed.Object) {
	if f.witness == nil || o.Revision > f.witness.Revision {
		witness := *o
		f.witness = &witness
	}
}

// observeDeletion forgets a witness that was deleted, which proves nothing.
func (f *Feed) observeDeletion(key []byte) {
	if f.witness != nil && bytes.Equal(f.witness.Key, key) {
		f.witness = nil
	}
}

// confirmKept checks that objects which did not come from the server are of its history, before
// they are used. The error wraps feed.ErrUnusable if they are not, or if the server no longer
// knows; after others it may be asked again.
func (f *Feed) confirmKept(ctx context.Context, revision int64, witness *feed.Object) error {
	err := f.confirmHistory(ctx, revision, witness)
	if errors.Is(err, feed.ErrWentBack) || needsLoad(err) {
		return fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	return err
}

// resume loads the checkpoint of the resource, if there is one. The error wraps
// feed.ErrUnusable if it cannot be used; after others it may be tried again.
func (f *Feed) resume(ctx context.Context) error {
	began := time.Now()
	kept, err := f.cfg.Checkpoint()
	if err != nil {
		return fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	if kept == nil {
		return nil
	}
	defer kept.Close()
	if kept.Witness() == nil {
		return nil // without objects a load costs as little
	}
	if err := f.confirmKept(ctx, kept.Revision(), kept.Witness()); err != nil {
		return err
	}
	loader := f.cfg.Sink.BeginLoad()
	if err := kept.Load(ctx, loader); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	f.endLoad(ctx, loader, kept.Revision())
	f.applied.Store(kept.Revision())
	f.witness, f.loaded = kept.Witness(), true
	f.cfg.Logger.Info("Feed has loaded its checkpoint and follows the API server from there on",
		"url", f.cfg.URL, "revision", kept.Revision(), "took", time.Since(began).Round(time.Millisecond))
	return nil
}
