package testbed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The media types and encodings that workloads ask for.
const (
	AcceptJSON     = "application/json"
	AcceptProtobuf = "application/vnd.kubernetes.protobuf"
	AcceptTable    = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

	EncodingGzip = "gzip"
)

// Request describes a GET.
type Request struct {
	URI      string // path and query
	Accept   string
	Encoding string // Accept-Encoding; empty: the header is not sent
	// ETag is the ETag of the document that the client has. The answer may then be a 304
	// without a body. Empty: If-None-Match is not sent.
	ETag string
}

// NewRequest builds a request. It may be sent more than once, but not concurrently.
func (t *Target) NewRequest(ctx context.Context, r Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.BaseURL+r.URI, nil)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Accept", r.Accept)
	req.Header.Set("User-Agent", "millrace-bench")
	if r.Encoding != "" {
		req.Header.Set("Accept-Encoding", r.Encoding)
	}
	if r.ETag != "" {
		req.Header.Set("If-None-Match", r.ETag)
	}
	return req, nil
}

// StatusError is an answer with a status that was not expected.
type StatusError struct {
	method, uri, status string
	text                string // the start of the body

	code       int
	retryAfter time.Duration // of the header Retry-After; zero without it
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", e.method, e.uri, e.status, e.text)
}

// newStatusError returns a *StatusError of an answer. It reads the start of the body. The
// caller must close the body.
func newStatusError(req *http.Request, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &StatusError{method: req.Method, uri: req.URL.RequestURI(), status: resp.Status, text: strings.TrimSpace(string(text)),
		code: resp.StatusCode, retryAfter: time.Duration(seconds) * time.Second}
}
