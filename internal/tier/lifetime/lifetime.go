// Package lifetime starts goroutines whose end their starter waits for.
package lifetime

import "context"

// Start calls run in a goroutine of its own, and returns stop. stop cancels the context of run,
// and waits until run has returned. That context has the values of ctx, but is not cancelled with
// ctx. For example, feeds must outlive the shutdown of the server that reads from them. Callers
// defer stop, so that everything stops in the reverse of the order in which it started:
//
//	defer lifetime.Start(ctx, feeds.run)()
func Start(ctx context.Context, run func(context.Context)) (stop func()) {
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
