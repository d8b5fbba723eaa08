package read

import (
	"context"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// watchSet ends all of its watches together. After that it ends each watch that is added at
// once. The zero value is ready.
type watchSet struct {
	mu struct {
		sync.Mutex
		watches map[*wakeSignal]struct{}
		over    bool
	}
}

func (e *watchSet) add(s *wakeSignal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.over {
		s.end()
		return
	}
	if e.mu.watches == nil {
		e.mu.watches = map[*wakeSignal]struct{}{}
	}
	e.mu.watches[s] = struct{}{}
}

func (e *watchSet) remove(s *wakeSignal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.mu.watches, s)
}

func (e *watchSet) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.over = true
	for s := range e.mu.watches {
		s.end()
	}
}

// followShutdown ends all watches when the server shuts down. The signal is found in the
// context of a request, and is the same for all requests of a server, so the first one
// starts the goroutine that waits for it.
func (t *Tier) followShutdown(ctx context.Context) {
	t.shutdown.Do(func() {
		if shutdown := request.ServerShutdownSignalFrom(ctx); shutdown != nil {
			go func() {
				<-shutdown.ShuttingDown()
				t.watches.end()
			}()
		}
	})
}
