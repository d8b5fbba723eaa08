package differential

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// request is a request that both servers receive unchanged.
type request struct {
	// method defaults to GET.
	method string
	// path is sent unchanged. query follows after a question mark.
	path, query string
	// accept, encoding and agent are headers. Empty ones are not sent, except
	// that Go then sends its own user agent.
	accept, encoding, agent string
	// header holds further headers.
	header http.Header
	as     identity
	// zstd requests zstd before encoding from our side only: Kubernetes does
	// not have it.
	zstd bool
	// listPath is the list by which the caches catch up. It is empty for paths
	// without objects.
	listPath string
}

func (r request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.verb(), r.path)
	if r.query != "" {
		b.WriteString("?" + r.query)
	}
	for _, h := range [][2]string{{"Accept", r.accept}, {"Accept-Encoding", r.encoding}, {"User-Agent", r.agent}} {
		if h[1] != "" {
			fmt.Fprintf(&b, " [%s: %s]", h[0], h[1])
		}
	}
	for name, values := range r.header {
		fmt.Fprintf(&b, " [%s: %s]", name, strings.Join(values, "|"))
	}
	if r.zstd {
		b.WriteString(" [ours: zstd]")
	}
	if r.as != "" && r.as != admin {
		fmt.Fprintf(&b, " as %s", r.as)
	}
	return b.String()
}

// bracketed matches the parts of a printed request that are in brackets.
var bracketed = regexp.MustCompile(` \[([^]:]+): ([^]]*)\]`)

// parseRequest parses the result of String. The request has no listPath.
func parseRequest(text string) (request, error) {
	var r request
	text, identified, _ := strings.Cut(strings.TrimSpace(text), " as ")
	r.as = identity(identified)
	for _, m := range bracketed.FindAllStringSubmatch(text, -1) {
		switch name, value := m[1], m[2]; name {
		case "Accept":
			r.accept = value
		case "Accept-Encoding":
			r.encoding = value
		case "User-Agent":
			r.agent = value
		case "ours":
			r.zstd = true
		default:
			if r.header == nil {
				r.header = http.Header{}
			}
			r.header[name] = strings.Split(value, "|")
		}
	}
	method, target, ok := strings.Cut(bracketed.ReplaceAllString(text, ""), " ")
	if !ok || !strings.HasPrefix(target, "/") {
		return r, fmt.Errorf("%q is no request such as %q", text, "GET /api/v1/pods?limit=1 [Accept: application/json]")
	}
	r.method = method
	r.path, r.query, _ = strings.Cut(target, "?")
	return r, nil
}

// TestParseRequest parses printed requests.
func TestParseRequest(t *testing.T) {
	for _, want := range []request{
		{method: "GET", path: "/api/v1/pods"},
		{method: "GET", path: "/api/v1/pods", query: "limit=1&labelSelector=a%3Db", accept: "application/json;as=Table;v=v1;g=meta.k8s.io, application/json", encoding: "gzip", as: http1},
		{method: "HEAD", path: "/apis/x", agent: "curl/8", zstd: true, header: http.Header{"X-Twice": {"a", "b"}}},
	} {
		got, err := parseRequest(want.String())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("parse %q: %+v, %v, want %+v", want, got, err, want)
		}
	}
	if _, err := parseRequest("nonsense"); err == nil {
		t.Error("nonsense was taken for a request")
	}
}

func (r request) verb() string {
	if r.method == "" {
		return http.MethodGet
	}
	return r.method
}

// asked returns the request's Accept-Encoding lines.
func (r *request) asked() []string {
	if r.encoding != "" {
		return []string{r.encoding}
	}
	return r.header["Accept-Encoding"]
}

// answer is a response. Its body is decompressed.
type answer struct {
	status int
	header http.Header
	body   []byte
	// asked are the request's Accept-Encoding lines.
	asked []string
	// sent is the length of the body in bytes before decompression.
	sent int
	// members is the number of members of a body in gzip.
	members int
	// narrowed is the namespace if the request to the other server was narrowed
	// to it.
	narrowed string
}

const requestTimeout = 30 * time.Second

// do sends a request and reads the answer. It only returns errors of the
// connection.
func (s *side) do(r request) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	resp, err := s.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: body, asked: resp.Request.Header["Accept-Encoding"], sent: len(body)}
	switch resp.Header.Get("Content-Encoding") {
	case "gzip":
		a.body, a.members, err = gunzip(body)
	case "zstd":
		a.body, err = unzstd(body)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress answer: %w", err)
	}
	return a, nil
}

// send sends a request as its user.
func (s *side) send(ctx context.Context, r request) (*http.Response, error) {
	target := s.URL + r.path
	if r.query != "" {
		target += "?" + r.query
	}
	req, err := http.NewRequestWithContext(ctx, r.verb(), target, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	for name, value := range map[string]string{"Accept": r.accept, "Accept-Encoding": r.encoding, "User-Agent": r.agent} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	as := r.as
	if as == "" {
		as = admin
	}
	resp, err := s.clients[as].Do(req)
	if err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	return resp, nil
}

// gunzip decompresses a body and counts its members. An empty body has none: Kubernetes
// ends some watches before their first byte, and says gzip all the same.
func gunzip(packed []byte) (plain []byte, members int, err error) {
	if len(packed) == 0 {
		return nil, 0, nil
	}
	in := bytes.NewReader(packed)
	r, err := gzip.NewReader(in)
	for ; err == nil; err = r.Reset(in) {
		members++
		r.Multistream(false)
		member, err := io.ReadAll(r)
		if err != nil {
			return nil, 0, fmt.Errorf("member %d: %w", members, err)
		}
		plain = append(plain, member...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return plain, members, err
}
