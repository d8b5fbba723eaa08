package kube

import (
	"iter"
	"strconv"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// eventBatch is how many events a handler reads from the log in one call.
const eventBatch = 64

// storedHandler calls one event handler of a storedInformer. It reads the log with a
// cursor of its own. So a slow handler delays no other handler and needs no queue. If the
// log drops events before the handler reads them, storedHandler compares what it has
// delivered with the current objects.
//
// For a handler, an object that cannot be decoded does not exist.
type storedHandler struct {
	objects *storedIndexer
	handler toolscache.ResourceEventHandler
	// synced is closed when the initial objects have been delivered.
	synced chan struct{}
	// stopping is closed by stop.
	stopping chan struct{}
	stop     func()
	// delivered belongs to the goroutine of run.
	delivered deliveredState
}

// deliveredState is the set of objects that a handler knows: a tree of the cache, and the
// changes delivered since. The tree shares its unchanged nodes with the current one, so
// it costs little.
type deliveredState struct {
	tree cache.Tree
	// changes has nil for deleted objects.
	changes map[string]*entry.Entry
}

func (d *deliveredState) get(key string) *entry.Entry {
	if e, changed := d.changes[key]; changed {
		return e
	}
	return d.tree.Get(key)
}

// all yields the objects that the handler knows, in no order.
func (d *deliveredState) all() iter.Seq[*entry.Entry] {
	return func(yield func(*entry.Entry) bool) {
		for e := range d.tree.All("", "") {
			if _, changed := d.changes[e.Key]; !changed && !yield(e) {
				return
			}
		}
		for _, e := range d.changes {
			if e != nil && !yield(e) {
				return
			}
		}
	}
}

// record keeps a delivered change. e is nil for a deletion.
func (d *deliveredState) record(key string, e *entry.Entry) {
	if d.changes == nil {
		d.changes = map[string]*entry.Entry{}
	}
	d.changes[key] = e
}

func newStoredHandler(objects *storedIndexer, handler toolscache.ResourceEventHandler) *storedHandler {
	h := &storedHandler{objects: objects, handler: handler, synced: make(chan struct{}), stopping: make(chan struct{})}
	h.stop = sync.OnceFunc(func() { close(h.stopping) })
	return h
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (h *storedHandler) HasSynced() bool { return closed(h.synced) }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (h *storedHandler) HasSyncedChecker() toolscache.DoneChecker {
	return checker{name: "informer handler", done: h.synced}
}

// run delivers all objects, then changes, until the handler is stopped.
func (h *storedHandler) run() {
	r := h.objects.source().Resource()
	for !closed(h.stopping) {
		snapshot := r.Snapshot()
		at, _, err := r.Log().Since(snapshot.Revision)
		if err != nil {
			continue // the log has dropped this revision: take a newer snapshot
		}
		if h.relist(snapshot.Tree) {
			h.follow(r, at)
		}
	}
}

// relist delivers the differences between a tree and what was delivered. It returns false
// if the handler was stopped meanwhile.
func (h *storedHandler) relist(now cache.Tree) bool {
	for e := range now.All("", "") {
		if closed(h.stopping) {
			return false
		}
		if old := h.delivered.get(e.Key); old == nil || old.Revision != e.Revision || (old.Err == nil) != (e.Err == nil) {
			h.deliver(old, e, e.Revision)
		}
	}
	for e := range h.delivered.all() {
		if closed(h.stopping) {
			return false
		}
		if now.Get(e.Key) != nil {
			continue
		}
		_ = h.objects.source().Cache().Panics().Guard(panics.Informer, func() error {
			if obj := h.decode(e); obj != nil {
				h.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: e.Key, Obj: obj})
			}
			return nil
		})
	}
	h.delivered = deliveredState{tree: now}
	if !h.HasSynced() {
		close(h.synced)
	}
	return true
}

// follow delivers events of the log from at on. It returns when events were dropped or
// the handler is stopped.
func (h *storedHandler) follow(r *cache.Resource, at cache.Position) {
	buf := make([]cache.Event, eventBatch)
	for {
		// Taken before the log is read. If the log has nothing new, all of it was delivered.
		snapshot := r.Snapshot()
		n, next, grown, err := r.Log().Read(at, buf)
		if err != nil {
			return
		}
		for _, e := range buf[:n] {
			if closed(h.stopping) {
				return
			}
			h.deliver(e.Previous, e.Entry, e.Revision)
			h.delivered.record(e.Key(), e.Entry)
		}
		clear(buf[:n])
		if at = next; n > 0 {
			continue
		}
		h.delivered = deliveredState{tree: snapshot.Tree}
		select {
		case <-grown:
		case <-h.stopping:
			return
		}
	}
}

// deliver decodes a change at a revision and calls the handler. old or now may be nil. If the
// handler panics, it misses this change and gets the next one.
func (h *storedHandler) deliver(old, now *entry.Entry, revision int64) {
	_ = h.objects.source().Cache().Panics().Guard(panics.Informer, func() error {
		h.call(old, now, revision)
		return nil
	})
}

func (h *storedHandler) call(old, now *entry.Entry, revision int64) {
	before, after := h.decode(old), h.decode(now)
	switch {
	case before == nil && after != nil:
		h.handler.OnAdd(after, !h.HasSynced())
	case before != nil && after != nil:
		h.handler.OnUpdate(before, after)
	case before != nil:
		before.SetResourceVersion(strconv.FormatInt(revision, 10))
		h.handler.OnDelete(before)
	}
}

func (h *storedHandler) decode(e *entry.Entry) object {
	return h.objects.decodeForHandlers(h.objects.source(), e)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
