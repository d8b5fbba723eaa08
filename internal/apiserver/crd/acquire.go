package crd

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	// errNotServed says that a definition or version is not served, or not any longer.
	errNotServed = errors.New("version is not served")
	// ErrChanged says that a definition has changed, and that neither the cache nor its event
	// log has it any longer as it was. Callers begin again with the newest row.
	ErrChanged = errors.New("the definition of the resource has changed: try again")
)

// usage is the use of a servedDefinition by one request. A definition may change at any
// moment of a request, so all requests come to their state in one way:
//
//	use ─┬─► take a reference ─┬─► prepare ─┬─► ready ─► the caller's work ─► release
//	     ▲                     │            ├─► ErrChanged ─► release ─► catch up ─┐
//	     │                     │            └─► other errors, a panic ─► release   │
//	     │                     └─► no row: errNotServed                            │
//	     └──────────── try again, ten times at most, then 429 ◄────────────────────┘
//
// The reference is taken under the lock under which a change retires a servedDefinition,
// and belongs to a servedDefinition that matches the newest row. A change after that does
// no harm. The state keeps its storages until release, and what it still has to compile
// comes out of the definition as it was (Catalog.FullOf). So an answer is as of the moment
// of acquisition, as in Kubernetes, which compiles everything beforehand.
//
// ErrChanged means that the state has ended, or that its definition is no longer in the event
// log. Then the next attempt finds the successor of the state.
//
// Routes take a reference to a servedDefinition that they know (servedDefinition.begin). If
// it is retired, they pass the request on to the handler, which comes here.
type usage struct {
	served *servedDefinition
	// row is the newest row. Its conditions may be newer than the conditions of served.def.
	row *Definition
	// held is set until release. creates is set if the request may create objects: the
	// definition is not being deleted, or its deletion waits for the request.
	held, creates bool
}

// admitCreation sets creates, unless the definition is being deleted. It decides under the
// lock under which the deletion looks for such requests (Server.creating). So an object
// that is created late is deleted with the others. None is left in etcd without a
// definition, where it would turn up in the next definition of the name.
func (u *usage) admitCreation() {
	s := u.served.server
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.catalog.Get(u.row.Name)
	if u.creates = row != nil && row.UID == u.row.UID && !row.Deleting && !row.Terminating; u.creates {
		u.served.creators.Add(1)
	}
}

// creating reports whether there are or may still be requests that may create objects of a
// definition, which is being deleted.
func (s *Server) creating(d *Definition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if row := s.catalog.Get(d.Name); row != nil && row.UID == d.UID && !row.Deleting {
		return true // the rows lag
	}
	if current := s.mu.served[d.UID]; current != nil && current.creators.Load() > 0 {
		return true
	}
	for old := range s.mu.retired {
		if old.def.UID == d.UID && old.creators.Load() > 0 {
			return true
		}
	}
	return false
}

// release gives the reference back. It does so once, however often it is called. One
// goroutine uses a usage.
func (u *usage) release() {
	if u.creates {
		u.creates = false
		u.served.creators.Add(-1)
	}
	if u.held {
		u.held = false
		u.served.references.release()
	}
}

// maxAcquireAttempts bounds how often use tries again because a definition has changed.
const maxAcquireAttempts = 10

// use acquires the state by which a definition is served, and calls prepare to make what
// the request needs of it. Unless use returns an error, the caller must release the usage.
// The error is errNotServed, an error of prepare, or an error for clients (tooManyChanges).
func (s *Server) use(ctx context.Context, name string, prepare func(*usage) error) (*usage, error) {
	for range maxAcquireAttempts {
		u, err := s.tryUse(name, prepare)
		if !errors.Is(err, ErrChanged) {
			return u, err
		}
		if s.catalog.CatchUp(ctx) != nil {
			break
		}
	}
	return nil, tooManyChanges()
}

// tryUse is use for one attempt.
func (s *Server) tryUse(name string, prepare func(*usage) error) (*usage, error) {
	u := s.acquire(name)
	if u == nil {
		return nil, errNotServed
	}
	ready := false
	defer func() {
		if !ready { // an error or a panic
			u.release()
		}
	}()
	if err := prepare(u); err != nil {
		return nil, err
	}
	ready = true
	return u, nil
}

// changePause is the Retry-After of tooManyChanges in seconds.
const changePause = 1

// tooManyChanges tells a client to try again. Kubernetes answers so while it makes the
// storage of a definition that has changed.
func tooManyChanges() error {
	return apierrors.NewTooManyRequests("the definition of the resource is changing, please try again", changePause)
}
