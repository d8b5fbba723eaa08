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
	// maxStrangers bounds the requests of strangers that the upstream has not answered yet, and
	// strangersEach those of one address. Each costs the upstream a connection.
	maxStrangers, strangersEach = 64, 32
	// waitingStrangers bounds those that wait for their turn, which hold places among the requests in
	// flight at the replica. A fleet that begins at once behind one address, and about which the
	// upstream could not be asked yet, is among them.
	waitingStrangers = 2048
	// strangersWait is how long such a request waits for its turn, by default.
	strangersWait = 10 * time.Second
)

// errStrangersWait is the error of a request that has not had its turn.
var errStrangersWait = errors.New("too many requests of unknown users wait for the API server")

// strangersTransport sends the requests of users whom the upstream does not know. A request has
// its place until the upstream has answered well, which shows that it knows the user after all
// (a token may stand where this replica does not look), or has sent its refusal.
type strangersTransport struct {
	next   http.RoundTripper
	places *Limiter
	// waiting are places to wait for one.
	waiting *semaphore.Weighted
	wait    time.Duration
}

// RoundTrip implements http.RoundTripper.
func (s *strangersTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	address, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		address = req.RemoteAddr
	}
	release, err := s.turn(req.Context(), address)
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
	resp.Body = &placeBody{ReadCloser: resp.Body, release: sync.OnceFunc(release)}
	return resp, nil
}

// turn waits for the turn of a request, and returns what ends it.
func (s *strangersTransport) turn(ctx context.Context, address string) (end func(), err error) {
	if end, ok := s.places.TryAcquire(address); ok {
		return end, nil
	}
	if !s.waiting.TryAcquire(1) {
		return nil, errStrangersWait
	}
	defer s.waiting.Release(1)
	waiting, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	if end, err = s.places.Acquire(waiting, address); err != nil && ctx.Err() == nil {
		err = errStrangersWait
	}
	return end, err
}

// placeBody gives a place back when its answer has ended.
type placeBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b *placeBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
