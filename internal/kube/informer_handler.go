package kube

import (
	"iter"
	"strconv"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// eventBatch is how many events a handler takes from the log at a time.
const eventBatch = 64

// storedHandler tells one handler of objects. It has a cursor of its own, so a slow
// one delays nobody and needs no queue: if the log overtakes it, it compares
// what it told with what there is now.
//
// To a handler an object that cannot be read does not exist.
type storedHandler struct {
	objects *storedIndexer
	handler toolscache.ResourceEventHandler
	// synced is closed when all objects have been told that were there at first.
	synced chan struct{}
	// stopping is closed by stop.
	stopping chan struct{}
	stop     func()
	// The rest belongs to run.
	delivered deliveredState
}

// deliveredState is what a handler knows: a tree that it had caught up with, and what it
// heard since. The newest tree shares what did not change, so it costs little.
type deliveredState struct {
	tree cache.Tree
	// changes has nil for deleted objects.
	changes map[string]*resource.Entry
}

func (t *deliveredState) get(key string) *resource.Entry {
	if e, changed := t.changes[key]; changed {
		return e
	}
	return t.tree.Get(key)
}

// all yields the objects that a handler knows, in no order.
func (t *deliveredState) all() iter.Seq[*resource.Entry] {
	return func(yield func(*resource.Entry) bool) {
		for e := range t.tree.All("", "") {
			if _, changed := t.changes[e.Key]; !changed && !yield(e) {
				return
			}
		}
		for _, e := range t.changes {
			if e != nil && !yield(e) {
				return
			}
		}
	}
}

func (t *deliveredState) record(key string, e *resource.Entry) {
	if t.changes == nil {
		t.changes = map[string]*resource.Entry{}
	}
	t.changes[key] = e
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

// run tells of all objects and then of what changes, until it is stopped.
func (h *storedHandler) run() {
	r := h.objects.source().Resource()
	for !closed(h.stopping) {
		snapshot := r.Snapshot()
		at, _, err := r.Log().Since(snapshot.Revision)
		if err != nil {
			continue // the log has gone on since: so has the state
		}
		if h.relist(snapshot.Tree) {
			h.follow(r, at)
		}
	}
}

// relist tells what a tree has that was not told, and whether it came to the
// end of it.
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
		if obj := h.decode(e); obj != nil {
			h.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: e.Key, Obj: obj})
		}
	}
	h.delivered = deliveredState{tree: now}
	if !h.HasSynced() {
		close(h.synced)
	}
	return true
}

// follow tells the events from a place in the log on, until some are lost.
func (h *storedHandler) follow(r *cache.Resource, at cache.Cursor) {
	buf := make([]cache.Event, eventBatch)
	for {
		// If the log has nothing new after this, the snapshot is what was told.
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

// deliver tells of a change at a revision. Either entry may be nil.
func (h *storedHandler) deliver(old, now *resource.Entry, revision int64) {
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

func (h *storedHandler) decode(e *resource.Entry) object {
	return h.objects.decode(h.objects.source(), e)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
