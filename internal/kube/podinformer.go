package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/storage"
)

// podInformer is the informer of pods that Kubernetes' own parts use: the node
// authorizer, token authentication and some admission plugins. The stock one
// holds each pod decoded, at some 10 KiB, in the same process that has it in its
// byte cache already. This one reads that cache: its store decodes what is asked
// for, and each handler follows the resource's log by itself, as a watch does.
// It costs two decodings for each change of a pod instead.
//
//	created ──RunWithContext──► running ──context ends──► stopped
//
// It never resyncs, which informers need not.
type podInformer struct {
	pods podIndexer
	// loaded is closed when the cache holds all pods and handlers are told.
	loaded chan struct{}

	handlers struct {
		sync.Mutex
		phase phase
		all   map[*podHandler]bool
		// running counts the handlers' goroutines.
		running sync.WaitGroup
	}
}

type phase int

const (
	created phase = iota
	running
	stopped
)

var (
	_ cache.SharedIndexInformer = (*podInformer)(nil)
	_ cache.Controller          = (*podInformer)(nil)
)

// errStarted says what comes too late.
var errStarted = errors.New("the informer has been started")

// newPodInformer makes an informer over the storage that source returns, which
// must be there when the informer is run.
func newPodInformer(source func() *storage.Store) *podInformer {
	i := &podInformer{pods: podIndexer{source: source}, loaded: make(chan struct{})}
	i.handlers.all = map[*podHandler]bool{}
	return i
}

// Run implements cache.SharedInformer.
func (i *podInformer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext implements cache.SharedInformer. It returns when the handlers
// have.
func (i *podInformer) RunWithContext(ctx context.Context) {
	s := i.pods.source()
	if s == nil || s.Cache().Progress().Wait(ctx, 1) != nil || !i.start() {
		return
	}
	<-ctx.Done()
	i.stop()
	i.handlers.running.Wait()
}

func (i *podInformer) start() bool {
	i.handlers.Lock()
	defer i.handlers.Unlock()
	if i.handlers.phase != created {
		return false
	}
	i.handlers.phase = running
	close(i.loaded)
	for h := range i.handlers.all {
		i.handlers.running.Go(h.run)
	}
	return true
}

func (i *podInformer) stop() {
	i.handlers.Lock()
	defer i.handlers.Unlock()
	i.handlers.phase = stopped
	for h := range i.handlers.all {
		h.stop()
	}
}

// AddEventHandler implements cache.SharedInformer.
func (i *podInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *podInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *podInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers.Lock()
	defer i.handlers.Unlock()
	if i.handlers.phase == stopped {
		return nil, errors.New("the informer has been stopped")
	}
	h := newPodHandler(&i.pods, handler)
	i.handlers.all[h] = true
	if i.handlers.phase == running {
		i.handlers.running.Go(h.run)
	}
	return h, nil
}

// RemoveEventHandler implements cache.SharedInformer. A call of the handler that
// is under way may end after it.
func (i *podInformer) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	i.handlers.Lock()
	defer i.handlers.Unlock()
	if h, ok := registration.(*podHandler); ok {
		h.stop()
		delete(i.handlers.all, h)
	}
	return nil
}

// GetStore implements cache.SharedInformer.
func (i *podInformer) GetStore() cache.Store { return &i.pods }

// GetIndexer implements cache.SharedIndexInformer.
func (i *podInformer) GetIndexer() cache.Indexer { return &i.pods }

// AddIndexers implements cache.SharedIndexInformer.
func (i *podInformer) AddIndexers(indexers cache.Indexers) error { return i.pods.AddIndexers(indexers) }

// GetController implements cache.SharedInformer.
func (i *podInformer) GetController() cache.Controller { return i }

// HasSynced implements cache.SharedInformer.
func (i *podInformer) HasSynced() bool { return cache.IsDone(i.HasSyncedChecker()) }

// HasSyncedChecker implements cache.SharedInformer.
func (i *podInformer) HasSyncedChecker() cache.DoneChecker {
	return checker{name: "pod informer", done: i.loaded}
}

// LastSyncResourceVersion implements cache.SharedInformer.
func (i *podInformer) LastSyncResourceVersion() string { return i.pods.LastStoreSyncResourceVersion() }

// SetWatchErrorHandler implements cache.SharedInformer. There is no watch that
// could fail.
func (i *podInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return i.unstarted() }

// SetWatchErrorHandlerWithContext implements cache.SharedInformer.
func (i *podInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return i.unstarted()
}

// SetTransform implements cache.SharedInformer.
func (i *podInformer) SetTransform(transform cache.TransformFunc) error {
	if err := i.unstarted(); err != nil {
		return err
	}
	i.pods.mu.Lock()
	defer i.pods.mu.Unlock()
	i.pods.mu.transform = transform
	return nil
}

func (i *podInformer) unstarted() error {
	i.handlers.Lock()
	defer i.handlers.Unlock()
	if i.handlers.phase != created {
		return errStarted
	}
	return nil
}

// IsStopped implements cache.SharedInformer.
func (i *podInformer) IsStopped() bool {
	i.handlers.Lock()
	defer i.handlers.Unlock()
	return i.handlers.phase == stopped
}

// checker implements cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }
