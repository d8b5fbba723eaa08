// Package interrupt ends the work of a command at a signal. A command whose work takes longer
// than a moment runs it in the context that Context returns, and cleans up when that ends.
//
// The package is not for servers, which have Kubernetes' order of shutdown.
package interrupt

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Context returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. A second
// signal has its default effect: it kills the process.
func Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// errInterrupted replaces the errors of work that a signal has ended. Nearly all such errors say
// that some request was cancelled.
var errInterrupted = errors.New("interrupted")

// Explain returns the error of work that has run in ctx: errInterrupted if ctx was cancelled,
// else err as it is. A nil err stays nil.
func Explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return errInterrupted
	}
	return err
}
