package datadir

import (
	"errors"
	"fmt"
)

// The kinds of errors, for errors.Is. The text of an error is for the person who runs
// the command, and says what to do next.
var (
	// ErrInUse: another process, or another Dir of this process, holds the directory's lock.
	ErrInUse = errors.New("data directory in use")
	// ErrUnusable: the directory cannot be made, entered, written or kept private.
	ErrUnusable = errors.New("data directory unusable")
	// ErrNotFound: Lookup found no data directory, or one without what it needs.
	ErrNotFound = errors.New("data directory not found")
	// ErrBadState: a file in the directory is damaged or does not fit the others.
	ErrBadState = errors.New("bad file in data directory")
	// ErrInvalidHosts: a name or a port of the Hosts for EnsureCredentials is invalid.
	ErrInvalidHosts = errors.New("invalid hosts")
	// ErrClosed: the Dir was used after Close.
	ErrClosed = errors.New("data directory is closed")
)

// failure is an error whose text does not contain the texts of its kind and its cause.
// errors.Is and errors.As find both.
type failure struct {
	text  string
	kind  error
	cause error // may be nil
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

// newFailure makes an error of a kind, with a cause that may be nil. The text contains
// the cause only if that is among the args.
func newFailure(kind, cause error, format string, args ...any) error {
	return &failure{text: fmt.Sprintf(format, args...), kind: kind, cause: cause}
}
