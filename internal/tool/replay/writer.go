package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// writer sends writes as the user of the kubeconfig. It is safe for several goroutines.
type writer struct {
	server *server
	// sizes are the sizes of an object in bytes, by resource. newWriter sets them.
	sizes map[string]int
	// count is the number of writes that send has started.
	count atomic.Int64

	mu struct {
		sync.Mutex
		// versions are the resource versions of the newest answers, by path.
		versions map[string]string
	}
}

const (
	// maxPrepared bounds the objects that newWriter creates.
	maxPrepared = 50_000
	preparers   = 32 // goroutines of newWriter
	// maxWriteAnswer is the number of bytes of an answer that are searched for the resource
	// version.
	maxWriteAnswer = 64 << 10
)

// newWriter returns a writer for a plan. It first creates what the writes need, unless it exists:
// namespaces, and the objects that the log updates, patches or deletes.
func newWriter(ctx context.Context, s *server, p *plan) (*writer, error) {
	w := &writer{server: s, sizes: map[string]int{}}
	w.mu.versions = map[string]string{}
	namespaces, objects := map[string]bool{}, map[string]*object{}
	for i := range p.targets {
		o := p.targets[i].object
		if o == nil {
			continue
		}
		namespaces[o.namespace] = true
		if w.sizes[o.resource] == 0 {
			w.sizes[o.resource] = w.objectSize(ctx, o)
		}
		if o.name != "" {
			objects[o.path()] = o
		}
	}
	if len(objects) > maxPrepared {
		return nil, fmt.Errorf("the log changes %d objects, and replay makes at most %d before it starts: give a part of "+
			"the log", len(objects), maxPrepared)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(preparers)
	for name := range namespaces {
		group.Go(func() error { return w.makeNamespace(groupCtx, name) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	group, groupCtx = errgroup.WithContext(ctx)
	group.SetLimit(preparers)
	for _, o := range objects {
		group.Go(func() error {
			_, err := w.do(groupCtx, http.MethodPost, o.collectionPath(), o.path(), "",
				o.encode(o.name, "", w.sizes[o.resource], 0), http.StatusConflict)
			return err
		})
	}
	return w, group.Wait()
}

// objectSize returns the size of an object of a resource: of the first object that the server has,
// or a usual size.
func (w *writer) objectSize(ctx context.Context, o *object) int {
	plural, _, _ := strings.Cut(o.resource, ".")
	usual := &clusterprofile.Resource{Resource: o.resource}
	usual.SetDefaults()
	body, err := w.server.get(ctx, o.api+"/"+plural+"?limit=1")
	if err != nil {
		return int(usual.Bytes)
	}
	defer body.Close()
	const head = 150 // bytes of a list without its object
	text, err := io.ReadAll(io.LimitReader(body, 2<<20))
	if err != nil || len(text) < 2*head {
		return int(usual.Bytes)
	}
	return len(text) - head
}

// makeNamespace creates a namespace, unless it exists, and its default service account: without the
// account no pod is admitted.
func (w *writer) makeNamespace(ctx context.Context, name string) error {
	const path = "/api/v1/namespaces"
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{%q:"true"}}}`, name, writeLabel)
	if _, err := w.do(ctx, http.MethodPost, path, "", "", body, http.StatusConflict); err != nil {
		return err
	}
	account := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","labels":{%q:"true"}}}`, writeLabel)
	_, err := w.do(ctx, http.MethodPost, path+"/"+name+"/serviceaccounts", "", "", account, http.StatusConflict)
	return err
}

// send sends a write of the log. An update of a pod, or of an object of events.events.k8s.io,
// becomes a patch, because most of their fields must not change.
func (w *writer) send(ctx context.Context, verb string, o *object) result {
	began, number, size := time.Now(), int(w.count.Add(1)), w.sizes[o.resource]
	method, path, name := http.MethodPost, o.collectionPath(), o.name
	var contentType string
	var body []byte
	switch {
	case verb == "create":
		name = fmt.Sprintf("replay-%d-%d", began.UnixNano(), number)
		body = o.encode(name, "", size, number)
	case verb == "delete":
		method, path = http.MethodDelete, o.path()+"?gracePeriodSeconds=0"
	case verb == "update" && o.resource != "pods" && o.resource != "events.events.k8s.io":
		method, path, body = http.MethodPut, o.path(), o.encode(name, w.version(o.path()), size, number)
	default:
		method, path, contentType, body = http.MethodPatch, o.path(), "application/merge-patch+json", o.mergePatch(size, number)
	}
	r, err := w.do(ctx, method, path, o.path(), contentType, body, 0)
	r.took = time.Since(began)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		return r // r.status is the error
	}
	r.err = err
	return r
}

// version returns the newest resource version of the object at a path, "" if it is unknown.
func (w *writer) version(path string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.versions[path]
}

// refusedError is an answer with a status of 400 or more.
type refusedError struct {
	method, path, status string
	body                 []byte
}

// Error implements error.
func (e *refusedError) Error() string {
	return fmt.Sprintf("%s %s: status %s: %.200s", e.method, e.path, e.status, watchevent.Text(watchevent.Member(e.body, "message")))
}

// do sends a request. It keeps the resource version in the answer for the object at objectPath, unless
// objectPath is "". An empty contentType means JSON. expected is a status of 400 or more that is
// not an error, or 0. The error for another status of 400 or more is a refusedError.
func (w *writer) do(ctx context.Context, method, path, objectPath, contentType string, body []byte, expected int) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.server.base+path, bytes.NewReader(body))
	if err != nil {
		return result{}, err
	}
	if contentType == "" {
		contentType = "application/json"
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", w.server.agent)
	resp, err := w.server.transports[int(w.count.Load())%len(w.server.transports)].RoundTrip(req)
	if err != nil {
		return result{}, err
	}
	defer resp.Body.Close()
	counted := &countingReader{reader: resp.Body}
	head, err := io.ReadAll(io.LimitReader(counted, maxWriteAnswer))
	if err == nil {
		_, err = io.Copy(io.Discard, counted)
	}
	r := result{status: resp.StatusCode, bytes: counted.count}
	switch {
	case err != nil:
		return r, err
	case resp.StatusCode >= 400 && resp.StatusCode != expected:
		return r, &refusedError{method, path, resp.Status, head}
	}
	if version := string(watchevent.Revision(head, watchevent.JSON)); version != "" && objectPath != "" && method != http.MethodDelete {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.versions[objectPath] = version
	}
	return r, nil
}
