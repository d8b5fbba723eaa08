package datadir

import (
	"errors"
	"fmt"
)

// What callers may tell apart with errors.Is. The error's text is made for the
// person who runs the command and says what to do next.
var (
	// ErrInUse: another process holds the directory's lock.
	ErrInUse = errors.New("data directory in use")
	// ErrUnusable: the directory cannot be made, entered, written or kept private.
	ErrUnusable = errors.New("data directory unusable")
	// ErrNotFound: Lookup found no data directory, or one without what it needs.
	ErrNotFound = errors.New("data directory not found")
	// ErrBadState: a file in the directory is damaged or does not fit the others.
	ErrBadState = errors.New("bad file in data directory")
	// ErrInvalidHosts: the Hosts given to EnsureCredentials make no sense.
	ErrInvalidHosts = errors.New("invalid hosts")
	// ErrClosed: the Dir was used after Close.
	ErrClosed = errors.New("data directory is closed")
)

// failure is an error whose text stands alone, without the texts of its kind
// and cause, which stay reachable for errors.Is and errors.As.
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

// fail makes an error of a kind; a cause is among the args of the text when it
// is worth reading.
func fail(kind, cause error, format string, args ...any) error {
	return &failure{text: fmt.Sprintf(format, args...), kind: kind, cause: cause}
}
