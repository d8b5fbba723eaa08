package verify_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// fakeAPI is an API server in memory. It keeps all promises, except those that its fault breaks.
// "" is no fault. Reads and writes hold mu.
type fakeAPI struct {
	fault string
	mu    sync.Mutex
	// grown is closed and replaced when a change is made.
	grown     chan struct{}
	revision  int64
	uids      int // number of objects that were created
	resources map[string]*fakeResource
	watches   int // number of watches that were opened
}

// fakeResource has all changes of a resource, by revision.
type fakeResource struct{ log []fakeChange }

type fakeChange struct {
	revision int64
	name     string
	// object is the version that the change made, nil for a deletion. before is the version
	// that it replaced.
	object, before *fakeObject
}

type fakeObject struct {
	Metadata fakeMetadata `json:"metadata"`
}

type fakeMetadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// newFakeAPI starts a fakeAPI, and returns the configuration of a client of it.
func newFakeAPI(t *testing.T, fault string) *rest.Config {
	t.Helper()
	f := &fakeAPI{fault: fault, grown: make(chan struct{}), revision: 100, resources: map[string]*fakeResource{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// ServeHTTP implements http.Handler. It accepts all requests for a namespace and a definition.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	at := slices.Index(parts, "namespaces")
	switch {
	case at < 0 || len(parts) <= at+2:
		if req.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		fmt.Fprint(w, `{"gitVersion":"v0.0.0-fake"}`)
		return
	case req.URL.Query().Get("watch") == "true":
		f.watch(w, req, parts[at+1], parts[at+2])
		return
	}
	name := ""
	if len(parts) > at+3 {
		name = parts[at+3]
	}
	body, _ := io.ReadAll(req.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	status, answer := f.answerLocked(req, parts[at+1], parts[at+2], name, body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func refuse(status int) (int, any) {
	return status, map[string]any{"kind": "Status", "code": status, "message": http.StatusText(status)}
}

func (f *fakeAPI) resourceLocked(name string) *fakeResource {
	if f.resources[name] == nil {
		f.resources[name] = &fakeResource{}
	}
	return f.resources[name]
}

// stateAtLocked returns the objects of a resource at a revision, by name.
func (r *fakeResource) stateAtLocked(revision int64) map[string]*fakeObject {
	state := map[string]*fakeObject{}
	for _, c := range r.log {
		if c.revision > revision {
			break
		}
		if state[c.name] = c.object; c.object == nil {
			delete(state, c.name)
		}
	}
	return state
}

// answerLocked makes a write or answers a read, and returns the status and the body.
func (f *fakeAPI) answerLocked(req *http.Request, namespace, resource, name string, body []byte) (int, any) {
	r := f.resourceLocked(resource)
	now := r.stateAtLocked(f.revision)
	var sent fakeObject
	_ = json.Unmarshal(body, &sent)
	switch req.Method {
	case http.MethodPost:
		if now[sent.Metadata.Name] != nil && f.fault != "create over" {
			return refuse(http.StatusConflict)
		}
		f.uids++
		sent.Metadata.UID, sent.Metadata.Namespace = fmt.Sprint("uid-", f.uids), namespace
		return http.StatusCreated, f.changeLocked(r, sent.Metadata.Name, &sent)
	case http.MethodPut, http.MethodPatch:
		old := now[name]
		if old == nil {
			return refuse(http.StatusNotFound)
		}
		if v := sent.Metadata.ResourceVersion; v != "" && v != old.Metadata.ResourceVersion && f.fault != "lost update" {
			return refuse(http.StatusConflict)
		}
		changed := *old
		changed.Metadata.Labels = sent.Metadata.Labels
		if f.fault == "lost write" && f.revision%10 == 0 {
			changed.Metadata.ResourceVersion = strconv.FormatInt(f.revision+1, 10)
			f.revision++
			return http.StatusOK, &changed
		}
		return http.StatusOK, f.changeLocked(r, name, &changed)
	case http.MethodDelete:
		old := now[name]
		if old == nil {
			return refuse(http.StatusNotFound)
		}
		f.changeLocked(r, name, nil)
		return http.StatusOK, map[string]any{"kind": "Status", "details": map[string]any{"uid": old.Metadata.UID}}
	}
	return f.readLocked(req, r, name)
}

// changeLocked makes a change and wakes watches. It returns the object with its new version.
func (f *fakeAPI) changeLocked(r *fakeResource, name string, object *fakeObject) *fakeObject {
	before := r.stateAtLocked(f.revision)[name]
	f.revision++
	if object != nil {
		copied := *object
		object = &copied
		object.Metadata.ResourceVersion = strconv.FormatInt(f.revision, 10)
	}
	r.log = append(r.log, fakeChange{f.revision, name, object, before})
	close(f.grown)
	f.grown = make(chan struct{})
	return object
}

// readLocked answers a GET or a LIST.
func (f *fakeAPI) readLocked(req *http.Request, r *fakeResource, name string) (int, any) {
	query := req.URL.Query()
	revision := f.revision
	table := strings.Contains(req.Header.Get("Accept"), "as=Table")
	asked, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	match, limit := query.Get("resourceVersionMatch"), query.Get("limit")
	switch {
	case asked > f.revision && f.fault != "future":
		return refuse(http.StatusGatewayTimeout)
	case f.fault == "stale" && query.Get("resourceVersion") == "" && query.Get("continue") == "":
		revision -= min(10, f.revision-100)
	case f.fault == "older" && asked > 0:
		revision = max(100, asked-20)
	case asked > 0 && (match == "Exact" || limit != "" && match == "" && query.Get("fieldSelector") == "") && f.fault != "not exact":
		revision = asked
	}
	offset := 0
	if token := query.Get("continue"); token != "" {
		fmt.Sscanf(token, "%d-%d", &revision, &offset)
		if f.fault == "pages" {
			revision = f.revision
		}
	}
	state := r.stateAtLocked(revision)
	if name != "" {
		return f.getLocked(state[name], table)
	}
	items := []*fakeObject{}
	for _, o := range state {
		if selects(query.Get("labelSelector"), query.Get("fieldSelector"), o) {
			items = append(items, o)
		}
	}
	slices.SortFunc(items, func(a, b *fakeObject) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	if f.fault == "list lacks" && len(items) > 3 {
		items = items[1:]
	}
	items = items[min(offset, len(items)):]
	meta := map[string]any{"resourceVersion": fmt.Sprint(revision)}
	if n, _ := strconv.Atoi(limit); n > 0 && len(items) > n && f.fault != "limit" {
		remaining := len(items) - n
		if f.fault == "remaining" {
			remaining++
		}
		items, meta["continue"], meta["remainingItemCount"] = items[:n], fmt.Sprintf("%d-%d", revision, offset+n), remaining
	}
	if table {
		return http.StatusOK, tableOf(meta, items...)
	}
	return http.StatusOK, map[string]any{"kind": "List", "metadata": meta, "items": items}
}

func (f *fakeAPI) getLocked(o *fakeObject, table bool) (int, any) {
	switch {
	case o == nil:
		return refuse(http.StatusNotFound)
	case table:
		return http.StatusOK, tableOf(map[string]any{"resourceVersion": o.Metadata.ResourceVersion}, o)
	}
	return http.StatusOK, o
}

func tableOf(meta map[string]any, items ...*fakeObject) any {
	rows := []any{}
	for _, o := range items {
		rows = append(rows, map[string]any{"object": o})
	}
	return map[string]any{"kind": "Table", "metadata": meta, "rows": rows}
}

func selects(labels, fields string, o *fakeObject) bool {
	if o == nil {
		return false
	}
	_, half, byLabel := strings.Cut(labels, "=")
	_, name, byField := strings.Cut(fields, "=")
	return (!byLabel || o.Metadata.Labels["half"] == half) && (!byField || o.Metadata.Name == name)
}

// fakeWatch is one watch. It breaks a promise only if it is faulty.
type fakeWatch struct {
	*fakeAPI
	w              http.ResponseWriter
	labels, fields string
	table, faulty  bool
	sent           int
}

// watch answers a watch. Its seconds are tenths of a second, since a test is short.
func (f *fakeAPI) watch(w http.ResponseWriter, req *http.Request, namespace, resource string) {
	query := req.URL.Query()
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	end := time.After(time.Duration(seconds) * 100 * time.Millisecond)
	asked, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	bookmarks := query.Get("allowWatchBookmarks") != ""
	f.mu.Lock()
	r := f.resourceLocked(resource)
	at := f.revision // the last revision that the watch has sent
	f.watches++
	out := &fakeWatch{
		fakeAPI: f, w: w, labels: query.Get("labelSelector"), fields: query.Get("fieldSelector"),
		table: strings.Contains(req.Header.Get("Accept"), "as=Table"), faulty: f.watches%3 == 0,
	}
	w.Header().Set("Content-Type", "application/json")
	if query.Get("sendInitialEvents") != "" || asked == 0 {
		if f.fault == "stale watch" && query.Get("resourceVersion") == "" {
			at -= min(15, f.revision-100)
		}
		for _, o := range r.stateAtLocked(at) {
			if selects(out.labels, out.fields, o) {
				out.send("ADDED", o)
			}
		}
		if query.Get("sendInitialEvents") != "" && bookmarks && (f.fault != "no end" || !out.faulty) {
			out.bookmark(at, map[string]string{"k8s.io/initial-events-end": "true"})
		}
	} else {
		at = asked
	}
	f.mu.Unlock()
	for {
		f.mu.Lock()
		grown := f.grown
		for _, c := range r.log {
			if c.revision > at {
				out.change(c)
			}
		}
		if at = max(at, f.revision); bookmarks {
			ahead := int64(0)
			if f.fault == "bookmark ahead" && out.faulty {
				ahead = 3
			}
			out.bookmark(at+ahead, nil)
		}
		f.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-grown:
		case <-end:
			return
		case <-req.Context().Done():
			return
		}
	}
}

// change sends the event of a change, or what the fault makes of it.
func (w *fakeWatch) change(c fakeChange) {
	before, after := selects(w.labels, w.fields, c.before), selects(w.labels, w.fields, c.object)
	if w.sent++; w.faulty && w.sent%7 == 0 {
		switch w.fault {
		case "event dropped":
			return
		case "event doubled":
			w.transition(c, before, after)
		case "wrong type":
			before, after = after, before
		}
	}
	w.transition(c, before, after)
}

// transition sends the event of a change. before and after say whether the watch selects the
// object's versions.
func (w *fakeWatch) transition(c fakeChange, before, after bool) {
	switch {
	case before && after && c.object != nil && c.before != nil:
		w.send("MODIFIED", c.object)
	case after && c.object != nil:
		w.send("ADDED", c.object)
	case before && c.before != nil:
		last := *c.before
		last.Metadata.ResourceVersion = strconv.FormatInt(c.revision, 10)
		w.send("DELETED", &last)
	}
}

func (w *fakeWatch) bookmark(revision int64, annotations map[string]string) {
	w.send("BOOKMARK", &fakeObject{fakeMetadata{ResourceVersion: fmt.Sprint(revision), Annotations: annotations}})
}

func (w *fakeWatch) send(kind string, o *fakeObject) {
	var object any = o
	if w.table && kind != "BOOKMARK" {
		object = tableOf(map[string]any{"resourceVersion": o.Metadata.ResourceVersion}, o)
	}
	_ = json.NewEncoder(w.w).Encode(map[string]any{"type": kind, "object": object})
}
