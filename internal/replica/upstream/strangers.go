package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxStrangers bounds the requests of strangers that the upstream has not answered yet, and
	// strangersEach those of one address. Each costs the upstream a connection.
	maxStrangers, strangersEach = 64, 32
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
	wait   time.Duration
}

// RoundTrip implements http.RoundTripper.
func (s *strangersTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	address, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		address, err = req.RemoteAddr, nil
	}
	release, ok := s.places.TryAcquire(address)
	if !ok {
		waiting, cancel := context.WithTimeout(req.Context(), s.wait)
		release, err = s.places.Acquire(waiting, address)
		cancel()
	}
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		if req.Context().Err() != nil {
			return nil, req.Context().Err()
		}
		return nil, errStrangersWait
	}
	resp, err := s.next.RoundTrip(req)
	if err != nil || resp.StatusCode < http.StatusMultipleChoices {
		release()
		return resp, err
	}
	resp.Body = &placeBody{ReadCloser: resp.Body, release: sync.OnceFunc(release)}
	return resp, nil
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
