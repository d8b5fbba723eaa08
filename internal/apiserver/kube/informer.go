package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/tier/storage"
)

// storedInformer is an informer for Kubernetes' own components: the node authorizer, token
// authentication, some admission plugins, and the proxy between API servers.
//
// The stock informer holds each object decoded, a pod at about 10 KiB, although the
// process holds the same object in its byte cache. This informer reads that cache
// instead. Its store decodes an object when it is asked for. Each handler follows the
// resource's event log with a cursor of its own, as a watch does. The price: for each
// update, every handler decodes the object before and the object after.
//
//	created ──RunWithContext, cache loaded──► running ──context ends──► stopped
//
// It never resyncs, which SharedInformer permits.
//
// Upstream: k8s.io/client-go/tools/cache.sharedIndexInformer; compare at each upgrade.
type storedInformer struct {
	objects storedIndexer
	// loaded is closed when the cache holds all objects. The handlers start then.
	loaded chan struct{}

	mu struct {
		sync.Mutex
		phase    phase
		handlers map[*storedHandler]bool
		// handling counts the handlers' goroutines.
		handling sync.WaitGroup
	}
}

type phase int

const (
	created phase = iota
	running
	stopped
)

var (
	_ cache.SharedIndexInformer = (*storedInformer)(nil)
	_ cache.Controller          = (*storedInformer)(nil)
)

// errStarted is returned by methods that are only allowed before the informer runs.
var errStarted = errors.New("the informer has been started")

// newStoredInformer makes an informer over the store that source returns. source may
// return nil until the informer runs. An informer without a store does not run.
func newStoredInformer(source func() *storage.Store, read objectReader) *storedInformer {
	i := &storedInformer{objects: storedIndexer{source: source, read: read}, loaded: make(chan struct{})}
	i.mu.handlers = map[*storedHandler]bool{}
	return i
}

// Run implements cache.SharedInformer.
func (i *storedInformer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext implements cache.SharedInformer. It runs once. It returns when the context
// and all handlers have ended.
func (i *storedInformer) RunWithContext(ctx context.Context) {
	store := i.objects.source()
	if store == nil || store.Cache().Progress().Wait(ctx, 1) != nil || !i.start() {
		return
	}
	<-ctx.Done()
	i.stop()
	i.mu.handling.Wait()
}

func (i *storedInformer) start() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.phase != created {
		return false
	}
	i.mu.phase = running
	close(i.loaded)
	for h := range i.mu.handlers {
		i.mu.handling.Go(h.run)
	}
	return true
}

func (i *storedInformer) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mu.phase = stopped
	for h := range i.mu.handlers {
		h.stop()
	}
}

// AddEventHandler implements cache.SharedInformer.
func (i *storedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *storedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *storedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.phase == stopped {
		return nil, errors.New("the informer has been stopped")
	}
	h := newStoredHandler(&i.objects, handler)
	i.mu.handlers[h] = true
	if i.mu.phase == running {
		i.mu.handling.Go(h.run)
	}
	return h, nil
}

// RemoveEventHandler implements cache.SharedInformer. A call of the handler that is in
// progress may end later.
func (i *storedInformer) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if h, ok := registration.(*storedHandler); ok {
		h.stop()
		delete(i.mu.handlers, h)
	}
	return nil
}

// GetStore implements cache.SharedInformer.
func (i *storedInformer) GetStore() cache.Store { return &i.objects }

// GetIndexer implements cache.SharedIndexInformer.
func (i *storedInformer) GetIndexer() cache.Indexer { return &i.objects }

// AddIndexers implements cache.SharedIndexInformer.
func (i *storedInformer) AddIndexers(indexers cache.Indexers) error {
	return i.objects.AddIndexers(indexers)
}

// GetController implements cache.SharedInformer.
func (i *storedInformer) GetController() cache.Controller { return i }

// HasSynced implements cache.SharedInformer.
func (i *storedInformer) HasSynced() bool { return cache.IsDone(i.HasSyncedChecker()) }

// handlersSynced returns a checker for each handler that was added so far. A checker is done
// when its handler has been given the initial objects.
func (i *storedInformer) handlersSynced() []cache.DoneChecker {
	i.mu.Lock()
	defer i.mu.Unlock()
	var synced []cache.DoneChecker
	for h := range i.mu.handlers {
		synced = append(synced, h.HasSyncedChecker())
	}
	return synced
}

// HasSyncedChecker implements cache.SharedInformer.
func (i *storedInformer) HasSyncedChecker() cache.DoneChecker {
	return checker{name: "stored informer", done: i.loaded}
}

// LastSyncResourceVersion implements cache.SharedInformer.
func (i *storedInformer) LastSyncResourceVersion() string {
	return i.objects.LastStoreSyncResourceVersion()
}

// SetWatchErrorHandler implements cache.SharedInformer. There is no watch that could
// fail, so the handler is never called.
func (i *storedInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return i.unstarted() }

// SetWatchErrorHandlerWithContext implements cache.SharedInformer.
func (i *storedInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return i.unstarted()
}

// SetTransform implements cache.SharedInformer.
func (i *storedInformer) SetTransform(transform cache.TransformFunc) error {
	if err := i.unstarted(); err != nil {
		return err
	}
	i.objects.mu.Lock()
	defer i.objects.mu.Unlock()
	i.objects.mu.transform = transform
	return nil
}

func (i *storedInformer) unstarted() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.phase != created {
		return errStarted
	}
	return nil
}

// IsStopped implements cache.SharedInformer.
func (i *storedInformer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mu.phase == stopped
}

// checker implements cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }
