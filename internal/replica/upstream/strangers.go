package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxStrangers bounds the requests of strangers that the upstream has not answered yet. Each
	// costs the upstream a connection.
	maxStrangers = 64
	// maxStrangersPerAddress is the same bound for one address.
	maxStrangersPerAddress = 32
	// waitingStrangers bounds the requests that wait for a slot. They count among the requests in
	// flight at the replica. They may be of a fleet with one address that starts together, while
	// the upstream cannot be asked about the fleet's tokens yet.
	waitingStrangers = 2048
	// strangersWait is how long a request waits for a slot, by default.
	strangersWait = 10 * time.Second
)

// errStrangersWait is the error of a request that got no slot.
var errStrangersWait = errors.New("too many requests of unknown users wait for the API server")

// strangersTransport sends the requests of strangers. A request holds a slot until the
// upstream has sent its whole refusal. The head of a good answer frees the slot: the upstream
// knows the user, whose token may stand where this replica does not look.
type strangersTransport struct {
	next http.RoundTripper
	// limiter bounds the requests that are with the upstream.
	limiter *Limiter
	// waitSemaphore bounds the requests that wait for the limiter.
	waitSemaphore *semaphore.Weighted
	wait          time.Duration
}

// RoundTrip implements http.RoundTripper.
func (s *strangersTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	address, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		address = req.RemoteAddr
	}
	release, err := s.acquire(req.Context(), address)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	resp, err := s.next.RoundTrip(req)
	if err != nil || resp.StatusCode < http.StatusMultipleChoices {
		release()
		return resp, err
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, release: sync.OnceFunc(release)}
	return resp, nil
}

// acquire waits for a slot, and returns the function that frees it. It fails with
// errStrangersWait, or with the context's error.
func (s *strangersTransport) acquire(ctx context.Context, address string) (release func(), err error) {
	if release, ok := s.limiter.TryAcquire(address); ok {
		return release, nil
	}
	if !s.waitSemaphore.TryAcquire(1) {
		return nil, errStrangersWait
	}
	defer s.waitSemaphore.Release(1)
	waiting, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	if release, err = s.limiter.Acquire(waiting, address); err != nil && ctx.Err() == nil {
		err = errStrangersWait
	}
	return release, err
}

// limitedBody frees the slot of its request when it is closed.
type limitedBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b *limitedBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
