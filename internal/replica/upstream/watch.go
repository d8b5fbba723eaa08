package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// watchEndSpread is the time over which the ends of watches are spread at a shutdown. So their
// clients do not come to another server together.
const watchEndSpread = 2 * time.Second

// passedOnWatch ends, when the replica shuts down, a watch that the upstream serves. The
// upstream would keep the watch for minutes, and the shutdown would wait for it. To its client
// the watch ends as watches do at an API server, by the end of the body.
type passedOnWatch struct {
	// ended says that the shutdown has ended the watch.
	ended atomic.Bool
}

// beginWatch returns the request to pass on in place of a watch's. stop must be called when the
// watch has ended.
func (p *passedOnWatch) beginWatch(req *http.Request) (passed *http.Request, stop func()) {
	ctx, cancel := context.WithCancel(req.Context())
	if shutdown := request.ServerShutdownSignalFrom(ctx); shutdown != nil {
		go func() {
			select {
			case <-shutdown.ShuttingDown():
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(rand.N(watchEndSpread)):
				p.ended.Store(true)
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return req.WithContext(ctx), cancel
}

// body returns the body of the upstream's answer, which ends at the shutdown.
func (p *passedOnWatch) body(upstream io.ReadCloser) io.ReadCloser {
	return &watchBody{ReadCloser: upstream, watch: p}
}

type watchBody struct {
	io.ReadCloser
	watch *passedOnWatch
}

// Read implements io.Reader.
func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.watch.ended.Load() {
		err = io.EOF
	}
	return n, err
}

// ignoreHangUp, deferred, ends the panic by which a proxy reports that the client of a watch has
// hung up, which is how clients end watches. Kubernetes would log it as an error.
func ignoreHangUp(client context.Context) {
	if !errors.Is(client.Err(), context.Canceled) {
		return
	}
	if value := recover(); value != nil && value != http.ErrAbortHandler {
		panic(value)
	}
}

func isWatch(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.IsResourceRequest && info.Verb == "watch"
}
