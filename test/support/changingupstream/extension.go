package changingupstream

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Extension is an API server to which the upstream passes requests for some group versions, as
// an APIService says. It has one object of each resource, at a much lower resource version than
// the upstream's. A warning marks its answers.
type Extension struct {
	server *httptest.Server
	port   int64
	over   chan struct{} // closed at the end of the test
	mu     struct {
		sync.Mutex
		// hanging has the groups whose requests hang. A channel is closed when requests go on.
		hanging map[string]chan struct{}
	}
}

const (
	foreignWarning = "of another server"
	// ForeignRevision is the resource version of everything in an Extension.
	ForeignRevision = 7
	foreignName     = "foreign"
)

// StartExtension starts an extension in this process.
func StartExtension(tb testing.TB) *Extension {
	tb.Helper()
	e := &Extension{over: make(chan struct{})}
	e.mu.hanging = map[string]chan struct{}{}
	e.server = httptest.NewUnstartedServer(e)
	e.server.Config.ErrorLog = log.New(io.Discard, "", 0) // upstreams do not always trust it
	e.server.StartTLS()
	tb.Cleanup(func() {
		close(e.over)
		e.server.CloseClientConnections()
		e.server.Close()
	})
	address, err := url.Parse(e.server.URL)
	if err != nil {
		tb.Fatal(err)
	}
	if e.port, err = strconv.ParseInt(address.Port(), 10, 64); err != nil {
		tb.Fatal(err)
	}
	return e
}

// ServeHTTP implements http.Handler.
func (e *Extension) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(parts) > 3 && e.hang(req, parts[1]) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Warning", `299 - "`+foreignWarning+`"`)
	w.Header().Set("Content-Type", "application/json")
	if len(parts) < 4 || parts[0] != "apis" {
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[]}`, strings.Join(parts[min(1, len(parts)):], "/"))
		return
	}
	version := parts[1] + "/" + parts[2]
	object := map[string]any{"apiVersion": version, "kind": "Foreign", "metadata": map[string]any{
		"name": foreignName, "uid": foreignName, "resourceVersion": strconv.Itoa(ForeignRevision),
	}}
	switch query := req.URL.Query(); {
	case req.Method != http.MethodGet:
		http.Error(w, `{"kind":"Status","status":"Failure","code":405}`, http.StatusMethodNotAllowed)
	case query.Get("watch") != "":
		e.watch(w, req, object)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": version, "kind": "ForeignList", "metadata": map[string]any{"resourceVersion": strconv.Itoa(ForeignRevision)}, "items": []any{object},
		})
	}
}

// setHanging makes the requests of a group hang from now on. Hanging requests fail.
func (e *Extension) setHanging(group string, hangs bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.mu.hanging[group]; now != nil {
		close(now)
		delete(e.mu.hanging, group)
	}
	if hangs {
		e.mu.hanging[group] = make(chan struct{})
	}
}

// hang waits while requests of a group hang. It reports whether the request has hung, and must
// fail.
func (e *Extension) hang(req *http.Request, group string) bool {
	e.mu.Lock()
	hanging := e.mu.hanging[group]
	e.mu.Unlock()
	if hanging == nil {
		return false
	}
	select {
	case <-hanging:
	case <-req.Context().Done():
	case <-e.over:
	}
	return true
}

// watch sends the object, and ends after a second without an event.
func (e *Extension) watch(w http.ResponseWriter, req *http.Request, object any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": object})
	w.(http.Flusher).Flush()
	select {
	case <-req.Context().Done():
	case <-e.over:
	case <-time.After(time.Second):
	}
}

// Foreign reports whether an extension has answered.
func (a *Answer) Foreign() bool {
	return strings.Contains(strings.Join(a.Header.Values("Warning"), "\n"), foreignWarning)
}

// trouble is a defect of an extension, or none.
type trouble int

const (
	healthy   trouble = iota
	hanging           // requests get no answer
	away              // nothing listens
	untrusted         // the upstream does not trust its certificate
)

// handOverBriefly gives a version of a resource to the extension for a while, and takes it back.
func (s *Script) handOverBriefly(ctx context.Context, r *Resource) error {
	now := r.Now().Shape
	version := now.ServedVersions()[s.random.IntN(len(now.ServedVersions()))]
	state := trouble(s.random.IntN(4))
	if err := s.handOver(ctx, r, version, state); err != nil {
		return err
	}
	if err := wait(ctx, time.Duration(200+s.random.IntN(1500))*time.Millisecond); err != nil {
		return err
	}
	return s.takeBack(ctx, r, version)
}

// handOver gives a version to the extension, and returns when the upstream passes requests on.
func (s *Script) handOver(ctx context.Context, r *Resource, version string, state trouble) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	s.record("hand %s over in %s, trouble %d", r.Name(), version, state)
	s.extension.setHanging(r.Group, state == hanging)
	next := r.Now()
	next.Foreign = version
	next.Broken = state != healthy
	r.Definition.beginAs(next)
	// Without the label, the upstream's controller leaves the object alone.
	spec := map[string]any{
		"group": r.Group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100, "insecureSkipTLSVerify": true,
		"service": map[string]any{"namespace": "default", "name": s.service(), "port": s.extension.port},
	}
	switch state {
	case away:
		spec["service"].(map[string]any)["port"] = 1
	case untrusted:
		delete(spec, "insecureSkipTLSVerify")
		spec["caBundle"] = base64.StdEncoding.EncodeToString(s.Config().CAData) // which has not signed it
	}
	if err := s.putAPIService(ctx, version+"."+r.Group, spec); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, takeUpTimeout)
	defer cancel()
	for {
		sendCtx, cancel := context.WithTimeout(ctx, time.Second)
		a := s.Send(sendCtx, Get(r.Collection(version, "")))
		cancel()
		if a.Foreign() || a.Err != nil || state != healthy && a.Status == http.StatusServiceUnavailable {
			break
		}
		if err := wait(ctx, poll); err != nil {
			return fmt.Errorf("%s in %s is not handed over: status %d: %s", r.Name(), version, a.Status, a.Message())
		}
	}
	r.Definition.markSettled()
	s.record("handed over %s", r.Name())
	return nil
}

// service returns the name of the extension's service.
func (s *Script) service() string { return fmt.Sprintf("living-%d", s.Seed) }

// makeService creates the extension's service at the upstream.
func (s *Script) makeService(ctx context.Context) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"type":"ExternalName","externalName":"localhost"}}`, s.service())
	a := s.Send(ctx, Call{Method: http.MethodPost, Path: "/api/v1/namespaces/default/services", Content: "application/json", Body: body})
	if a.Status != http.StatusCreated {
		return fmt.Errorf("make a service: status %d: %s", a.Status, a.Message())
	}
	return nil
}

const apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"

// putAPIService replaces an APIService, which the upstream has made.
func (s *Script) putAPIService(ctx context.Context, name string, spec map[string]any) error {
	for {
		read, err := NewObject(s.Send(ctx, Get(apiServicesPath+"/"+name)).Body)
		if err == nil {
			body, _ := json.Marshal(map[string]any{
				"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec,
				"metadata": map[string]any{"name": name, "resourceVersion": strconv.FormatInt(read.Revision, 10)},
			})
			a := s.Send(ctx, Call{Method: http.MethodPut, Path: apiServicesPath + "/" + name, Content: "application/json", Body: string(body)})
			if a.Status == http.StatusOK {
				return nil
			}
			if a.Status != http.StatusConflict {
				return fmt.Errorf("update APIService: status %d: %s", a.Status, a.Message())
			}
		}
		if err := wait(ctx, poll); err != nil {
			return err
		}
	}
}

// takeBack gives a version back to the upstream.
func (s *Script) takeBack(ctx context.Context, r *Resource, version string) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	s.record("take %s back in %s", r.Name(), version)
	next := r.Now()
	next.Foreign = ""
	next.Broken = false
	r.Definition.beginAs(next)
	if a := s.Send(ctx, Call{Method: http.MethodDelete, Path: apiServicesPath + "/" + version + "." + r.Group}); a.Status != http.StatusOK {
		return fmt.Errorf("delete APIService: status %d: %s", a.Status, a.Message())
	}
	s.extension.setHanging(r.Group, false)
	return s.awaitShape(ctx, r, next.Shape)
}
