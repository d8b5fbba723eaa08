package read

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// watchSet is watches that may be ended together. The zero value is ready.
type watchSet struct {
	mu struct {
		sync.Mutex
		watches map[*wakeSignal]struct{}
		// movable is the number of watches with a goAway.
		movable int
		// leaving says that a watch that is added leaves. ended says that it ends
		// immediately.
		leaving, ended bool
	}
}

// add adds a watch. If the set is leaving or ended, the watch leaves or ends.
func (e *watchSet) add(s *wakeSignal) {
	if e.insert(s) {
		s.leaveConnection()
	}
}

// insert does add's work under the lock. It reports whether the watch has to leave.
func (e *watchSet) insert(s *wakeSignal) (leaves bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.ended {
		s.end()
		return false
	}
	if e.mu.watches == nil {
		e.mu.watches = map[*wakeSignal]struct{}{}
	}
	e.mu.watches[s] = struct{}{}
	if s.goAway != nil {
		e.mu.movable++
	}
	return e.mu.leaving
}

func (e *watchSet) remove(s *wakeSignal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.mu.watches[s]; ok && s.goAway != nil {
		e.mu.movable--
	}
	delete(e.mu.watches, s)
}

// end ends all watches, and each watch that is added later.
func (e *watchSet) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.ended = true
	for s := range e.mu.watches {
		s.end()
	}
}

// startLeaving returns all watches, in no order, for the caller to make them leave. Watches
// that are added from now on leave by themselves.
func (e *watchSet) startLeaving() []*wakeSignal {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.leaving = true
	return slices.Collect(maps.Keys(e.mu.watches))
}

func (e *watchSet) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.mu.watches)
}

func (e *watchSet) movableLen() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.movable
}

// someConnections returns the movable watches of some connections at random, about as many
// watches as are asked for. It leaves out connections with more than twice as many.
func (e *watchSet) someConnections(watches int) (found [][]*wakeSignal) {
	for _, connection := range e.byConnection() {
		if watches <= 0 {
			break
		}
		if n := len(connection); n <= 2*watches {
			found = append(found, connection)
			watches -= n
		}
	}
	return found
}

// byConnection returns the watches that can move and do not leave yet, by their connection.
func (e *watchSet) byConnection() map[string][]*wakeSignal {
	e.mu.Lock()
	defer e.mu.Unlock()
	connections := map[string][]*wakeSignal{}
	for s := range e.mu.watches {
		if s.goAway != nil && !s.leaving.Load() {
			connections[s.connection] = append(connections[s.connection], s)
		}
	}
	return connections
}

// followShutdown drains all watches when the server shuts down. The signal is found in the
// context of a request, and is the same for all requests of a server. So the first request
// starts the goroutine that waits for it.
func (t *Tier) followShutdown(ctx context.Context) {
	t.shutdown.Do(func() {
		if shutdown := request.ServerShutdownSignalFrom(ctx); shutdown != nil {
			go func() {
				<-shutdown.ShuttingDown()
				t.drain()
			}()
		}
	})
}
