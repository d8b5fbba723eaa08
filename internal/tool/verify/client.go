package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// maxAnswer bounds an answer that is read as a whole.
const maxAnswer = 256 << 20

type server struct {
	index  int
	base   string
	client *http.Client
	// timeout bounds a request that is not a watch.
	timeout time.Duration
	// failed is when the last request that was no watch had no answer, or one of 500 and
	// above, in nanoseconds since 1970.
	failed atomic.Int64
}

func newServer(index int, config *rest.Config, timeout time.Duration) (*server, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("address of server %d: %w", index, err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of server %d: %w", index, err)
	}
	return &server{index: index, base: strings.TrimSuffix(base.String(), "/"), client: client, timeout: timeout}, nil
}

type answer struct {
	status int
	body   []byte
}

// refusal is an answer that is no success.
type refusal struct {
	status  int
	message string
}

// Error implements error.
func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.message) }

func (a *answer) refusal() *refusal { return &refusal{a.status, statusText(a.body)} }

// call sends a request and reads the answer. An error says that there was none.
func (s *server) call(ctx context.Context, method, path string, query url.Values, header http.Header, body []byte) (answer, error) {
	a, err := s.exchange(ctx, method, path, query, header, body)
	if err != nil && ctx.Err() == nil || a.status >= http.StatusInternalServerError {
		s.failed.Store(time.Now().UnixNano())
	}
	return a, err
}

func (s *server) exchange(ctx context.Context, method, path string, query url.Values, header http.Header, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	resp, err := s.open(ctx, method, path, query, header, body)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	return answer{resp.StatusCode, read}, nil
}

// open sends a request. The caller closes the answer's body.
func (s *server) open(ctx context.Context, method, path string, query url.Values, header http.Header, body []byte) (*http.Response, error) {
	target := s.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	return s.client.Do(req)
}

// repeat calls try until it is not to be tried again, or the context ends. It returns the error
// of the last try.
func repeat(ctx context.Context, try func() (again bool, err error)) error {
	for {
		again, err := try()
		if !again {
			return err
		}
		if pause(ctx, refusedPause); ctx.Err() != nil {
			return err
		}
	}
}

// failedAfter reports whether a request failed at the server after a time.
func (s *server) failedAfter(t time.Time) bool { return s.failed.Load() > t.UnixNano() }

// answerBody is what is read of an object, a list or a table.
type answerBody struct {
	// Metadata is that of an object, and of a list, which has the last two fields besides.
	Metadata struct {
		metav1.ObjectMeta
		Continue           string `json:"continue"`
		RemainingItemCount *int64 `json:"remainingItemCount"`
	} `json:"metadata"`
	Items []metav1.PartialObjectMetadata `json:"items"`
	Rows  []struct {
		Object metav1.PartialObjectMetadata `json:"object"`
	} `json:"rows"`
}

// errMalformed says that an answer is no list or object as its request asked for.
var errMalformed = errors.New("malformed answer")

func parseRevision(text string) (int64, error) {
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision <= 0 {
		return 0, fmt.Errorf("%w: resource version %q", errMalformed, text)
	}
	return revision, nil
}

// statusText is the message of an answer that is no success.
func statusText(body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return fmt.Sprintf("%.100q", body)
}
