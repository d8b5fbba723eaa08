// Package interrupt ends the work of a command at a signal. Every command whose work takes
// longer than a moment runs it in the context of Context, and cleans up when that ends.
//
// The package is not for servers, which have Kubernetes' order of shutdown.
package interrupt

import (
	"context"
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
