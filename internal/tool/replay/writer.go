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

// writer sends writes, in the name of the kubeconfig's user.
type writer struct {
	server *server
	// sizes are those of the resources' objects.
	sizes map[string]int
	// turn numbers the writes.
	turn atomic.Int64

	mu struct {
		sync.Mutex
		// versions are the newest resource versions that were answered, by path.
		versions map[string]string
	}
}

const (
	// maxPrepared bounds the objects that are made before a replay.
	maxPrepared = 50_000
	preparers   = 32
	// maxWriteAnswer is how much of an answer to a write is looked at.
	maxWriteAnswer = 64 << 10
)

// newWriter makes what the plan's writes need: namespaces, and the objects that the log
// updates, patches or deletes without having created them.
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
			w.sizes[o.resource] = w.sizeOf(ctx, o)
		}
		if o.name != "" {
			objects[o.path()] = o
		}
	}
	if len(objects) > maxPrepared {
		return nil, fmt.Errorf("the log changes %d objects, and replay makes at most %d before it begins: give a part of the log", len(objects), maxPrepared)
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
			_, err := w.do(groupCtx, http.MethodPost, o.collection(), o.path(), "", o.json(o.name, "", w.sizes[o.resource], 0), http.StatusConflict)
			return err
		})
	}
	return w, group.Wait()
}

// sizeOf is the size of an object that the server has of the resource, or a usual one.
func (w *writer) sizeOf(ctx context.Context, o *object) int {
	plural, _, _ := strings.Cut(o.resource, ".")
	usual := &clusterprofile.Resource{Resource: o.resource}
	usual.SetDefaults()
	body, err := w.server.get(ctx, o.api+"/"+plural+"?limit=1")
	if err != nil {
		return int(usual.Bytes)
	}
	defer body.Close()
	const head = 150 // what a list has around its object
	text, err := io.ReadAll(io.LimitReader(body, 2<<20))
	if err != nil || len(text) < 2*head {
		return int(usual.Bytes)
	}
	return len(text) - head
}

// makeNamespace makes a namespace with the service account without which no pod is admitted.
// Both may be there.
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

// send sends a write of the log. An update of a pod or of a new event, most of whose fields
// must not change, becomes a patch.
func (w *writer) send(ctx context.Context, verb string, o *object) result {
	began, turn, size := time.Now(), int(w.turn.Add(1)), w.sizes[o.resource]
	method, path, contentType, name := http.MethodPost, o.collection(), "", o.name
	var body []byte
	switch {
	case verb == "create":
		name = fmt.Sprintf("replay-%d-%d", began.UnixNano(), turn)
		body = o.json(name, "", size, turn)
	case verb == "delete":
		method, path = http.MethodDelete, o.path()+"?gracePeriodSeconds=0"
	case verb == "update" && o.resource != "pods" && o.resource != "events.events.k8s.io":
		method, path, body = http.MethodPut, o.path(), o.json(name, w.version(o.path()), size, turn)
	default:
		method, path, contentType, body = http.MethodPatch, o.path(), "application/merge-patch+json", o.patch(size, turn)
	}
	r, err := w.do(ctx, method, path, o.path(), contentType, body, 0)
	r.took = time.Since(began)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		return r // the status says it
	}
	r.err = err
	return r
}

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

// do sends a write, and keeps the version that it is answered with for the object at a path.
// expected is a status of 400 or more that is no error, or 0.
func (w *writer) do(ctx context.Context, method, path, at, contentType string, body []byte, expected int) (result, error) {
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
	resp, err := w.server.transports[int(w.turn.Load())%len(w.server.transports)].RoundTrip(req)
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
	if version := string(watchevent.Revision(head, watchevent.JSON)); version != "" && at != "" && method != http.MethodDelete {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.versions[at] = version
	}
	return r, nil
}
