package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
)

// fakeServer answers like an API server whose lists have two pages, and notes the requests.
type fakeServer struct {
	mu       sync.Mutex
	revision int
	asked    []string
	headers  []http.Header
	// watched has the times for which watches were open.
	watched []time.Duration
}

// ServeHTTP implements http.Handler.
func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("User-Agent") == "millrace-replay" {
		switch r.URL.Path {
		case "/version":
			fmt.Fprint(w, `{"gitVersion":"v1.99.0"}`)
		case "/metrics":
			fmt.Fprint(w, "process_cpu_seconds_total 5\nprocess_resident_memory_bytes 1e+08\n")
		default:
			fmt.Fprint(w, `{"metadata":{"resourceVersion":"100"}}`)
		}
		return
	}
	f.mu.Lock()
	f.revision++
	revision := 100 + f.revision
	f.asked = append(f.asked, r.URL.RequestURI())
	f.headers = append(f.headers, r.Header.Clone())
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case query.Get("watch") != "":
		fmt.Fprintf(w, `{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"%d"}}}`+"\n", revision)
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"%d"}}}`+"\n", revision+500)
		began := time.Now()
		<-r.Context().Done()
		f.mu.Lock()
		f.watched = append(f.watched, time.Since(began))
		f.mu.Unlock()
	case strings.HasSuffix(r.URL.Path, "/missing"):
		w.WriteHeader(http.StatusNotFound)
	case query.Get("limit") != "" && query.Get("continue") == "":
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":"token-%d=="},"items":[]}`, revision, revision)
	case strings.Contains(r.URL.Path, "widgets"):
		fmt.Fprintf(w, `{"apiVersion":"example.com/v1","items":[{"metadata":{"resourceVersion":"3"}}],"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"%d"}}`, revision)
	default:
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[{"metadata":{"resourceVersion":"4"}}]}`, revision)
	}
}

// logEvent is a line of an audit log. Times are in milliseconds.
type logEvent struct {
	id, stage, verb, uri, user, agent, pod string
	received, staged                       int
	code                                   int
}

func (e logEvent) line() string {
	t := func(millis int) string {
		return time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC).Add(time.Duration(millis) * time.Millisecond).Format("2006-01-02T15:04:05.000000Z")
	}
	event := map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "auditID": e.id, "stage": e.stage, "verb": e.verb, "requestURI": e.uri, "userAgent": e.agent, "sourceIPs": []string{"10.0.0.1"},
		"user":           map[string]any{"username": e.user, "groups": []string{"group-of-" + e.user, "system:authenticated"}, "extra": map[string]any{"authentication.kubernetes.io/pod-name": []string{e.pod}}},
		"responseStatus": map[string]any{"code": e.code}, "requestReceivedTimestamp": t(e.received), "stageTimestamp": t(e.staged),
	}
	text, _ := json.Marshal(event)
	return string(text) + "\n"
}

// informerLog returns the log of an informer in a pod: it lists in two pages, watches, and lists
// custom resources. The log also has requests that replay does not send.
func informerLog() string {
	const done, begun, user, agent = "ResponseComplete", "ResponseStarted", "system:serviceaccount:mon:agent", "agent/v1 (linux)"
	var b strings.Builder
	for _, e := range []logEvent{
		{"1", done, "list", "/api/v1/pods?limit=2&labelSelector=app%3Dweb", user, agent, "agent-1", 0, 5, 200},
		{"3", begun, "watch", "/api/v1/pods?labelSelector=app%3Dweb&resourceVersion=77&watch=true&allowWatchBookmarks=true", user, agent, "agent-1", 40, 41, 200},
		{"2", done, "list", "/api/v1/pods?limit=2&continue=old&labelSelector=app%3Dweb", user, agent, "agent-1", 20, 25, 200},
		{"4", done, "list", "/apis/example.com/v1/widgets?resourceVersion=0", user, agent, "agent-1", 60, 61, 200},
		{"5", begun, "watch", "/apis/example.com/v1/widgets?resourceVersion=78&watch=true", user, agent, "agent-1", 80, 81, 200},
		{"3", done, "watch", "/api/v1/pods?labelSelector=app%3Dweb&resourceVersion=77&watch=true&allowWatchBookmarks=true", user, agent, "agent-1", 40, 140, 200},
		{"6", begun, "watch", "/api/v1/pods?labelSelector=app%3Dweb&resourceVersion=79&watch=true&allowWatchBookmarks=true", user, agent, "agent-1", 150, 151, 200},
		{"7", done, "list", "/api/v1/pods?limit=2&continue=other", user, "kubectl/v1", "", 160, 165, 200},
		{"8", done, "get", "/api/v1/nodes/missing", "system:node:n1", "kubelet/v1", "", 170, 172, 200},
		{"9", done, "create", "/api/v1/namespaces/a/pods", user, agent, "agent-1", 180, 181, 201},
		{"10", done, "list", "/api/v1/secrets", user, agent, "agent-1", 182, 183, 403},
		{"11", done, "get", "/api/v1/namespaces/a/pods/p/log?follow=true", user, agent, "agent-1", 184, 185, 200},
		{"12", done, "get", "/apis", user, agent, "agent-1", 300, 301, 200},
	} {
		b.WriteString(e.line())
	}
	return b.String() + "no event\n"
}

// fakeTransport passes requests to a handler without a network, so that time can be faked.
type fakeTransport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (f fakeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	w := &pipeWriter{pipe: writer, header: http.Header{}, begun: make(chan int, 1)}
	go func() {
		f.handler.ServeHTTP(w, req)
		w.WriteHeader(http.StatusOK)
		_ = writer.Close() // a pipe's Close returns nil
	}()
	return &http.Response{StatusCode: <-w.begun, Header: w.header, Body: reader}, nil
}

// pipeWriter is the http.ResponseWriter of a fakeTransport.
type pipeWriter struct {
	pipe   *io.PipeWriter
	header http.Header
	once   sync.Once
	begun  chan int
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) { w.once.Do(func() { w.begun <- status }) }

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(b)
}

// runReplay sends a log to a server in faked time.
func runReplay(t *testing.T, f http.Handler, log string, o Options) (r Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		o.MaxInFlight = 10
		s := &server{base: "https://fake", agent: "millrace-replay", transports: []http.RoundTripper{fakeTransport{f}}}
		r = Report{Options: o}
		if err := r.replay(t.Context(), []string{file}, nil, []*server{s}, display.NewProgress(io.Discard)); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// TestReplaySendsWhatAClientWould compares the requests that reach the server with the log.
// Continue tokens and resource versions must be the ones that this server has sent.
func TestReplaySendsWhatAClientWould(t *testing.T) {
	f := &fakeServer{}
	r := runReplay(t, f, informerLog(), Options{Speed: 1, Impersonate: true})
	f.mu.Lock()
	defer f.mu.Unlock()
	want := []string{
		"/api/v1/pods?limit=2&labelSelector=app%3Dweb",
		"/api/v1/pods?limit=2&labelSelector=app%3Dweb&continue=token-101%3D%3D",
		"/api/v1/pods?labelSelector=app%3Dweb&watch=true&allowWatchBookmarks=true&resourceVersion=102",
		"/apis/example.com/v1/widgets?resourceVersion=0",
		"/apis/example.com/v1/widgets?watch=true&resourceVersion=104",
		// The bookmark of the first watch was the last that it heard.
		"/api/v1/pods?labelSelector=app%3Dweb&watch=true&allowWatchBookmarks=true&resourceVersion=603",
		"/api/v1/nodes/missing",
		"/apis",
	}
	if !slices.Equal(f.asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(f.asked, "\n"), strings.Join(want, "\n"))
	}
	h := f.headers[0]
	if h.Get("User-Agent") != "agent/v1 (linux)" || h.Get("Impersonate-User") != "system:serviceaccount:mon:agent" || h.Get("Impersonate-Extra-Authentication.kubernetes.io%2fpod-name") != "agent-1" {
		t.Errorf("headers of the agent: %v", h)
	}
	if h = f.headers[6]; !slices.Equal(h["Impersonate-Group"], []string{"group-of-system:node:n1", "system:authenticated"}) || h.Get("Accept") != "application/vnd.kubernetes.protobuf,application/json" {
		t.Errorf("headers of the kubelet: %v", h)
	}
	checkReport(t, &r)
}

func checkReport(t *testing.T, r *Report) {
	t.Helper()
	if r.Log.Requests != 9 || len(r.Log.Notes) != 1 || r.Log.Lost != 0 || r.Log.LeftOut[leftOutWrite] != 1 || r.Log.LeftOut[leftOutRefused] != 1 || r.Log.LeftOut[leftOutStream] != 1 {
		t.Errorf("the log: %+v", r.Log)
	}
	s := r.Servers[0]
	sums, noPage := s.totals(), 0
	for _, shape := range s.Shapes {
		noPage += shape.NoPage
		if shape.Sent+shape.NoPage != shape.InLog {
			t.Errorf("%+v", shape)
		}
	}
	if sums.Requests != 8 || sums.Refused != 1 || sums.Unanswered != 0 || sums.Events != 3 || noPage != 1 {
		t.Errorf("%+v, no page for %d", sums, noPage)
	}
	if s.Version != "v1.99.0" || s.CPUSeconds == nil || s.CutShort != 0 || s.FirstError != "" {
		t.Errorf("%+v", s)
	}
}

// TestWatchesLastAsInTheLog ends watches when they ended in the log, and others at its end.
func TestWatchesLastAsInTheLog(t *testing.T) {
	f := &fakeServer{}
	runReplay(t, f, informerLog(), Options{Speed: 0.5})
	f.mu.Lock()
	defer f.mu.Unlock()
	// In the log they are 100, 151 and 221 ms, and time passes half as fast.
	slices.Sort(f.watched)
	if want := []time.Duration{200 * time.Millisecond, 302 * time.Millisecond, 442 * time.Millisecond}; !slices.Equal(f.watched, want) {
		t.Errorf("watches were open for %v, want %v", f.watched, want)
	}
}

// TestInterrupted interrupts a replay at a server that does not answer, while a request waits
// for the end of another one.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(file, []byte(informerLog()), 0o600); err != nil {
			t.Fatal(err)
		}
		known := &fakeServer{}
		silent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("User-Agent") == "millrace-replay" {
				known.ServeHTTP(w, r)
				return
			}
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := Report{Options: Options{Speed: 1, MaxInFlight: 1}}
		s := &server{base: "https://fake", agent: "millrace-replay", transports: []http.RoundTripper{fakeTransport{silent}}}
		err := r.replay(ctx, []string{file}, nil, []*server{s}, display.NewProgress(io.Discard))
		if err == nil || err.Error() != "interrupted" {
			t.Errorf("got %v", err)
		}
		if len(r.Servers) != 1 || !r.Servers[0].Interrupted || !strings.Contains(r.text("table", 1), "https://fake: interrupted after ") {
			t.Errorf("the report does not say so: %+v", r.Servers)
		}
	})
}

func TestMistakesAreExplained(t *testing.T) {
	empty, half := filepath.Join(t.TempDir(), "empty.json"), filepath.Join(t.TempDir(), "half.json")
	for file, report := range map[string]string{empty: "{}", half: `{"servers":[{"interrupted":true}]}`} {
		if err := os.WriteFile(file, []byte(report), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		log  string
		want string
	}{
		{nil, "", "name a log"},
		{[]string{"-"}, "", "it is empty"},
		{[]string{"-", "--speed=0"}, informerLog(), "--speed"},
		{[]string{"-", "--kubeconfig=/nowhere"}, informerLog(), "/nowhere"},
		{[]string{"-", "--form=x=xml"}, informerLog(), "protobuf"},
		{[]string{"/nowhere"}, "", "/nowhere"},
		{[]string{"-", "--report=/nowhere/page.html"}, informerLog(), "/nowhere/page.html: "},
		{[]string{"-", "--report=/"}, informerLog(), "it is a directory"},
		{[]string{"-", "--from=report.json"}, informerLog(), "leave out the log"},
		{[]string{"-", "--delete"}, informerLog(), "leave out the log"},
		{[]string{"--from=" + empty}, "", "not a report of a replay"},
		{[]string{"--from=" + half}, "", "interrupted"},
	} {
		cmd := NewCommand("test")
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetIn(strings.NewReader(c.log))
		if len(c.args) > 0 && !slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, "--kubeconfig") }) {
			c.args = append(c.args, "--kubeconfig="+anyKubeconfig(t))
		}
		cmd.SetArgs(c.args)
		if err := cmd.ExecuteContext(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q in it", c.args, err, c.want)
		}
	}
}

func anyKubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"k","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"k"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
