package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// admission is the transport of feeds to the upstream. Before each watch it calls admit, which
// checks the upstream's version: a connection may lead to another server than the connection
// before. Events of another version must not reach readers of objects of this version.
type admission struct {
	// admit returns an error if no watch may be opened now.
	admit func(context.Context) error
	// endedEarly is called with the path of a watch that the upstream has ended in order before
	// half of its time.
	endedEarly func(path string)
	next       http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *admission) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	if query.Get("watch") != "true" {
		return a.next.RoundTrip(req)
	}
	if err := a.admit(req.Context()); err != nil {
		return nil, err
	}
	resp, err := a.next.RoundTrip(req)
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && resp.StatusCode == http.StatusOK {
		halfTime := time.Now().Add(time.Duration(seconds) * time.Second / 2)
		resp.Body = &watchBody{ReadCloser: resp.Body, ended: func() {
			if time.Now().Before(halfTime) {
				a.endedEarly(req.URL.Path)
			}
		}}
	}
	return resp, err
}

// watchBody calls ended when it is read to its end.
type watchBody struct {
	io.ReadCloser
	ended func()
}

// Read implements io.Reader.
func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended()
	}
	return n, err
}

// admit returns an error if the upstream does not answer, or answers with a version whose
// objects cannot be read in the present mode.
func (p *Policy) admit(ctx context.Context) error {
	if err := p.cfg.Upstream.LookAtVersion(ctx); err != nil {
		return err
	}
	if skew := p.cfg.Upstream.Skew(); p.mode == decoded && skew != 0 {
		return fmt.Errorf("the upstream is of version %s now, and this program of %s", p.cfg.Upstream.Version(), p.cfg.OwnVersion)
	}
	return nil
}
