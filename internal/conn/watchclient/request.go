package watchclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"
)

// Identity is what the requests of one program have in common. Requests share it.
type Identity struct {
	UserAgent string
	// User, Groups, Pod and Node are impersonated, if User is set.
	User   string
	Groups []string
	// Pod and Node are the pod and the node of a service account's token. Both may be empty.
	Pod, Node string
}

// Request is one request.
type Request struct {
	Method   string
	URI      string // path and query
	Accept   string
	Gzip     bool   // asks for a compressed answer
	Type     string // the content type of Body
	Body     []byte // nil for none
	Identity *Identity
}

// Handler gets the answer to a request. Its methods are called one at a time, and never
// from within Start. End is called exactly once, unless the stream is cancelled.
type Handler interface {
	// Header gets the final status and some headers.
	Header(h Header)
	// Data gets a part of the body, whose bytes it must not keep.
	Data(p []byte)
	// End gets nil if the server has ended the answer regularly.
	End(err error)
}

// Header is the beginning of an answer.
type Header struct {
	Status      int
	ContentType string
	Gzip        bool
	RetryAfter  time.Duration
}

// fields returns the header fields of a request.
func (r *Request) fields(s *Server) ([]hpack.HeaderField, error) {
	fields := make([]hpack.HeaderField, 0, 16)
	add := func(name, value string) { fields = append(fields, hpack.HeaderField{Name: name, Value: value}) }
	add(":method", r.Method)
	add(":scheme", "https")
	add(":authority", s.authority)
	add(":path", s.prefix+r.URI)
	add("accept", r.Accept)
	add("user-agent", r.Identity.UserAgent)
	if r.Gzip {
		add("accept-encoding", "gzip")
	}
	if r.Body != nil {
		add("content-type", r.Type)
		add("content-length", strconv.Itoa(len(r.Body)))
	}
	token, err := s.authorization()
	if err != nil {
		return nil, err
	}
	if token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: token, Sensitive: true})
	}
	if id := r.Identity; id.User != "" {
		add("impersonate-user", id.User)
		for _, group := range id.Groups {
			add("impersonate-group", group)
		}
		if id.Pod != "" {
			add(extraHeader("authentication.kubernetes.io/pod-name"), id.Pod)
			add(extraHeader("authentication.kubernetes.io/node-name"), id.Node)
		}
	}
	return fields, nil
}

func extraHeader(key string) string { return "impersonate-extra-" + lower(url.PathEscape(key)) }

// lower makes the hexadecimal digits of escapes small, as HTTP/2 asks of names.
func lower(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// maxAnswer bounds the bytes of a call's answer.
const maxAnswer = 32 << 20

// Answer is the whole answer to a call.
type Answer struct {
	Status     int
	Body       []byte
	RetryAfter time.Duration
}

// OK reports whether the status is a success.
func (a *Answer) OK() bool { return a.Status >= http.StatusOK && a.Status < http.StatusMultipleChoices }

// Call sends a request and waits for the whole answer.
func (c *Client) Call(ctx context.Context, r *Request) (*Answer, error) {
	h := &callHandler{done: make(chan error, 1)}
	stream := c.Start(r, h)
	select {
	case err := <-h.done:
		if err != nil {
			return nil, err
		}
		return &h.answer, nil
	case <-ctx.Done():
		stream.Cancel()
		return nil, context.Cause(ctx)
	}
}

// callHandler collects an answer. The caller reads it after done.
type callHandler struct {
	answer Answer
	long   bool
	done   chan error
}

// Header implements Handler.
func (h *callHandler) Header(head Header) {
	h.answer.Status, h.answer.RetryAfter = head.Status, head.RetryAfter
}

// Data implements Handler.
func (h *callHandler) Data(p []byte) {
	if len(h.answer.Body)+len(p) > maxAnswer {
		h.long = true
		return
	}
	h.answer.Body = append(h.answer.Body, p...)
}

// End implements Handler.
func (h *callHandler) End(err error) {
	if err == nil && h.long {
		err = errors.New("the answer is longer than 32 MiB")
	}
	h.done <- err
}
