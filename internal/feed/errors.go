package feed

import (
	"errors"
	"fmt"
)

// ErrWentBack says that the source of a feed is not what it was. Its newest revision is older
// than one that the feed has read, it has other objects at such a revision, or it is another
// cluster. Its etcd was restored from a backup, or another server answers at its address.
// Nothing that the feed has handed on can be trusted then, and the feed ends.
var ErrWentBack = errors.New("the source of objects has gone back in time, or is another one")

// ErrDoubt says that the source answers for this feed alone as if it had another history. A
// source that serves several feeds may have handed one of them to another server. It proves
// nothing about the other feeds. The feed loads again and goes on.
var ErrDoubt = errors.New("the source of one resource is not what it was")

// ErrRefused says that the source does not give the feed what the feed asks for, while it may
// answer others. The feed goes on asking, seldom. The error in the chain is a *Refusal.
var ErrRefused = errors.New("the source refuses the feed")

// Refusal is an ErrRefused of a server.
type Refusal struct {
	// Status is the status of HTTP.
	Status int
	// Said is the beginning of the answer.
	Said string
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%v: status %d: %.200q", ErrRefused, r.Status, r.Said)
}

// Is says that a refusal is an ErrRefused.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }
