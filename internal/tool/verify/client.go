package verify

import (
	"bytes"
	"context"
	"crypto/tls"
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
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// maxAnswer is the greatest size of an answer, in bytes. The rest of a larger one is not read,
// which makes it malformed.
const maxAnswer = 256 << 20

// server is a client of one server that is verified. It is safe for concurrent use.
type server struct {
	index  int    // in Config.Servers
	base   string // URL without a slash at the end
	client *http.Client
	// timeout bounds a request that is not a watch.
	timeout time.Duration
	// lastFailure is the time of the last request, watches aside, that had no answer or one of
	// 500 and above. It is in nanoseconds since 1970.
	lastFailure atomic.Int64
	// ownReads are the answers to askOwnReads, nil if the server is not known to be a replica.
	ownReads []OwnReads
	// ownReadsRefused says that the user may not ask for them.
	ownReadsRefused bool
}

// newServer returns the server that a client configuration is for. The client has no limit of
// its own for the rate of requests.
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

// answer is an answer that was read as a whole. The zero value is not an answer.
type answer struct {
	status int
	body   []byte
}

// refusal is an answer that is not a success, as an error.
type refusal struct {
	status  int
	message string
}

// Error implements error.
func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.message) }

// refusal returns the answer as an error. The caller has found that it is not a success.
func (a *answer) refusal() *refusal { return &refusal{a.status, statusText(a.body)} }

// call sends a request and reads the answer, for up to s.timeout. An error says that there was
// no answer. An answer that is not a success is not an error.
func (s *server) call(ctx context.Context, method, path string, query url.Values, header http.Header, body []byte) (answer, error) {
	a, err := s.exchange(ctx, method, path, query, header, body)
	if err != nil && ctx.Err() == nil || a.status >= http.StatusInternalServerError {
		s.lastFailure.Store(time.Now().UnixNano())
	}
	return a, err
}

// exchange is call without the note of failures.
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

// open sends a request, and returns when the header of the answer has come. The caller closes
// the body.
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

// refusedPause is how long a client waits after a request without an answer. A server that has
// just started again is thus not met by a storm.
const refusedPause = 200 * time.Millisecond

// pause waits for a duration, or until the context ends.
func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}

// repeat calls try until it returns false for again, or the context ends. It pauses between two
// calls, and returns the error of the last call.
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
func (s *server) failedAfter(t time.Time) bool { return s.lastFailure.Load() > t.UnixNano() }

// version returns the version that the server reports, and unknownServerVersion if it reports
// none. An error says that the server does not answer.
func (s *server) version(ctx context.Context) (string, error) {
	var version apiversion.Info
	got, err := s.call(ctx, http.MethodGet, "/version", nil, nil, nil)
	if err != nil {
		return unknownServerVersion, s.explainUnreachable(err)
	}
	if json.Unmarshal(got.body, &version) != nil {
		return unknownServerVersion, nil
	}
	return version.GitVersion, nil
}

const unknownServerVersion = "unknown"

// explainUnreachable returns an error that says what to do about a server that does not answer.
func (s *server) explainUnreachable(err error) error {
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return fmt.Errorf("%s: %w: give a kubeconfig with its authority", s.base, untrusted)
	}
	return fmt.Errorf("%s does not answer: %w", s.base, err)
}

// answerBody has the fields of an object, a list or a table that checks need.
type answerBody struct {
	// Metadata belongs to an object or a list. Only lists have the last two fields.
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

// errMalformed says that the body of an answer is not the object or list that was requested.
var errMalformed = errors.New("malformed answer")

// parseRevision returns a resource version as a number. An error wraps errMalformed.
func parseRevision(text string) (int64, error) {
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision <= 0 {
		return 0, fmt.Errorf("%w: resource version %q", errMalformed, text)
	}
	return revision, nil
}

// statusText returns the message of an answer that is not a success, or the start of its body.
func statusText(body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return fmt.Sprintf("%.100q", body)
}
