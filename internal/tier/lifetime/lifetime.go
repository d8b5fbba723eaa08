// Package lifetime ends what runs beside something else, in the reverse order of the starts.
package lifetime

import "context"

// RunUntilStopped calls run in a goroutine of its own, and returns stop. stop ends the context
// of run, and waits until run has returned. That context has the values of ctx, but does not end
// with ctx. For example, feeds must outlive the shutdown of the server that reads from them.
// Callers defer stop, so that everything stops in the reverse of the order in which it started:
//
//	defer lifetime.RunUntilStopped(ctx, feeds.run)()
func RunUntilStopped(ctx context.Context, run func(context.Context)) (stop func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(running)
	}()
	return func() {
		cancel()
		<-ended
	}
}
