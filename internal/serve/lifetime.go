package serve

import "context"

// runUntilStopped runs a function in a goroutine of its own until the returned
// function is called, which waits for its end. It has the values of ctx, but the end
// of ctx does not stop it: the feeds, for example, must outlive the shutdown of the
// server that reads from them. Callers defer the returned function, so that
// everything stops in the reverse of the order in which it started:
//
//	defer runUntilStopped(ctx, feeds.run)()
func runUntilStopped(ctx context.Context, run func(context.Context)) (stop func()) {
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
