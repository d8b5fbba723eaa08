package server

import "context"

// runUntilStopped runs a function in a goroutine of its own until the returned
// function is called, which waits for its end. The end of ctx does not stop it,
// although it has ctx's values: what a server depends on, such as the feeds, must
// outlive the server's own shutdown. Callers defer the returned function, so that
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
