// Package lifetime ends what runs beside something else, in the reverse order of the starts.
package lifetime

import "context"

// RunUntilStopped runs a function in a goroutine of its own until the returned function is
// called, which waits for its end. It has the values of ctx, but the end of ctx does not
// stop it. For example, feeds must outlive the shutdown of the server that reads from them.
// Callers defer the returned function, so that everything stops in the reverse of the order
// in which it started:
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
