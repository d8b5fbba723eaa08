package changingupstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// Client sends requests to one server, over connections of its own.
type Client struct {
	http       *http.Client
	url, token string
}

// NewClient returns a client of a server for a bearer token.
func NewClient(server *harness.Server, token string) *Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(server.Config().CAData)
	return &Client{url: server.URL, token: token, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}}}
}

// Close closes the client's idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call is a request.
type Call struct{ Method, Path, Accept, Content, Body string }

// Get returns a GET that asks for JSON.
func Get(path string) Call {
	return Call{Method: http.MethodGet, Path: path, Accept: "application/json"}
}

// Answer is the answer to a Call. Body is nil for one that Open has returned.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Began is a time before the request was sent. Ended is a time after the whole answer came.
	Began, Ended time.Time
	// Err is the reason why the answer is missing or not complete.
	Err error
}

// Open sends a request, and returns the answer with its body. The caller must close the body,
// which is nil if there is no answer.
func (c *Client) Open(ctx context.Context, r Call) (*Answer, io.ReadCloser) {
	a := &Answer{Began: time.Now()}
	req, err := http.NewRequestWithContext(ctx, r.Method, c.url+r.Path, strings.NewReader(r.Body))
	if err != nil {
		a.Err = err
		return a, nil
	}
	req.Header.Set("User-Agent", "living")
	req.Header.Set("Authorization", "Bearer "+c.token)
	for name, value := range map[string]string{"Accept": r.Accept, "Content-Type": r.Content} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		a.Err, a.Ended = err, time.Now()
		return a, nil
	}
	a.Status, a.Header = resp.StatusCode, resp.Header
	return a, resp.Body
}

// Send sends a request and reads the answer.
func (c *Client) Send(ctx context.Context, r Call) *Answer {
	a, body := c.Open(ctx, r)
	if body == nil {
		return a
	}
	defer body.Close()
	a.Body, a.Err = io.ReadAll(body)
	a.Ended = time.Now()
	return a
}

// warningFormat is the text of the warning that names a definition's generation.
const warningFormat = "generation %d of the definition"

var warning = regexp.MustCompile(`generation (\d+) of the definition`)

// NoGeneration is the generation of an answer without a warning.
const NoGeneration = -1

// Generation returns the generation of the definition by which the server has answered.
func (a *Answer) Generation() int {
	for _, line := range a.Header.Values("Warning") {
		if found := warning.FindStringSubmatch(line); found != nil {
			n, _ := strconv.Atoi(found[1])
			return n
		}
	}
	return NoGeneration
}

// PassedOn reports whether the upstream has answered, and not a replica: the upstream's filter
// of priority and fairness adds a header.
func (a *Answer) PassedOn() bool { return a.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") != "" }

// Message returns the message of an error.
func (a *Answer) Message() string {
	var status struct {
		Message string `json:"message"`
	}
	if a.Err != nil {
		return a.Err.Error()
	}
	if json.Unmarshal(a.Body, &status) != nil || status.Message == "" {
		return string(a.Body[:min(len(a.Body), 300)])
	}
	return status.Message
}
