package analyze

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/tool/auditlog"
)

func TestChangesAreCounted(t *testing.T) {
	const objects, pod = "/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/p"
	for _, c := range []struct {
		verb, uri string
		code      int
		changes   uint64
	}{
		{"create", objects, 201, 1},
		{"create", "/api/v1/pods", 201, 1}, // as of a resource without namespaces
		{"create", objects, 409, 0},
		{"create", objects, 404, 0},
		{"update", pod, 200, 1},
		{"patch", pod, 200, 1},
		{"delete", pod, 200, 1},
		{"update", pod, 409, 0},
		{"get", pod, 200, 0},
		{"patch", pod + "/status", 200, 1},
		{"update", pod + "/scale", 200, 1},
		{"create", pod + "/binding", 201, 1},
		{"create", pod + "/eviction", 201, 1},
		{"create", pod + "/eviction", 429, 0},
		{"patch", pod + "/ephemeralcontainers", 200, 1},
		{"get", pod + "/status", 200, 0},
		{"create", pod + "/exec", 101, 0},
		{"create", pod + "/portforward", 200, 0},
		{"create", pod + "/token", 201, 0},
		{"update", pod + "/proxy", 200, 0},
		{"delete", pod + "/proxy", 200, 0},
	} {
		w := newLog()
		w.add(daemon("watcher", 1), "watch", "/api/v1/pods?resourceVersion=5&watch=true", time.Second, time.Minute, 200)
		w.add(daemon("writer", 1), c.verb, c.uri, 2*time.Second, time.Millisecond, c.code)
		for _, s := range runAnalysis(t, w.bytes()).Shapes {
			if s.Verb == "watch" && s.Objects != c.changes {
				t.Errorf("%s %s with %d: a watch of all pods is sent %d events, want %d", c.verb, c.uri, c.code, s.Objects, c.changes)
			}
		}
	}
}

// TestLongNamesTakeBoundedMemory has names and selectors of the greatest length that an API server
// accepts, even from clients without credentials.
func TestLongNamesTakeBoundedMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	long := strings.Repeat("x", 100_000)
	c := newCollector()
	before := heap()
	for i := range 100 {
		name := fmt.Sprintf("%d-%s", i, long)
		for _, uri := range []string{
			"/" + name, "/apis/" + name + "/v1", "/apis/" + name + "/v1/things", "/apis/example.org/" + name + "/things", "/apis/example.org/v1/" + name,
			"/api/v1/namespaces/" + name + "/pods/" + name + "/" + name, "/api/v1/pods?labelSelector=" + name, "/api/v1/pods?fieldSelector=" + strings.Repeat("a%3D,", 20_000) + name,
		} {
			for _, verb := range []string{"get", "list", "watch", "create", name} {
				c.observe(&auditlog.Event{Stage: []byte(auditlog.StageComplete), Verb: []byte(verb), URI: []byte(uri), User: []byte(name), UserAgent: []byte(name), Pod: []byte(name), Received: 1e6, StageReached: 2e6, Code: 401})
			}
		}
	}
	list := auditlog.Event{Stage: []byte(auditlog.StageComplete), Verb: []byte("list"), StageReached: 1e6}
	for i := range 600 {
		list.URI = fmt.Appendf(nil, "/api/v1/pods?labelSelector=%d-%s", i, long[:32<<10])
		c.observe(&list)
	}
	if took := heap() - before; took > 15<<20 {
		t.Errorf("100 names of 100 KB and 600 selectors of 32 KB take %d MB", took>>20)
	}
	for key := range c.cells.rows {
		if s := key.Shape; len(s.Resource) > 128 || len(s.Version) > 128 || len(s.Selectors) > 128 || len(s.Verb) > 512 {
			t.Fatalf("a shape has words of %d, %d, %d and %d bytes", len(s.Resource), len(s.Version), len(s.Selectors), len(s.Verb))
		}
	}
	runtime.KeepAlive(c)
}

func TestLongSelectorsAreNotParsed(t *testing.T) {
	c := newCollector()
	e := auditlog.Event{Stage: []byte(auditlog.StageComplete), Verb: []byte("list"), URI: []byte("/api/v1/pods?labelSelector=" + strings.Repeat("a,", 500_000) + "a"), StageReached: 1e6}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.observe(&e)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("a selector of 1 MB takes %d MB", took>>20)
	}
}

func TestEventsWithoutTimesAreLeftOut(t *testing.T) {
	log := smallLog()
	want := runAnalysis(t, log)
	for name, times := range map[string]string{
		"none": ``, "null": `,"requestReceivedTimestamp":null,"stageTimestamp":null`, "zero": `,"requestReceivedTimestamp":"0001-01-01T00:00:00Z","stageTimestamp":"0001-01-01T00:00:00.000000Z"`,
	} {
		line := `{"stage":"ResponseComplete","verb":"list","requestURI":"/api/v1/pods","user":{"username":"x"},"responseStatus":{"code":200}` + times + "}\n"
		got := runAnalysis(t, append(slices.Clone(log), line...))
		if !got.From.Equal(want.From) || got.Seconds != want.Seconds || got.Total.Requests != want.Total.Requests {
			t.Errorf("%s: %s, %.0f s, %d requests; want %s, %.0f s, %d requests", name, got.From, got.Seconds, got.Total.Requests, want.From, want.Seconds, want.Total.Requests)
		}
		if in := got.Run.Inputs[0]; in.LostRecords() != 1 || in.Rest[0].FirstLine != int64(bytes.Count(log, []byte("\n")))+1 {
			t.Errorf("%s: got %+v", name, in.Rest)
		}
	}
}

// An event that has only one of the two times still counts in the period.
func TestEventsWithOneTimeAreCounted(t *testing.T) {
	line := `{"stage":"ResponseComplete","verb":"list","requestURI":"/api/v1/pods","user":{"username":"x"},"requestReceivedTimestamp":"2026-11-26T10:30:00.000000Z"}` + "\n"
	log := smallLog()
	want, got := runAnalysis(t, log).Total.Requests+1, runAnalysis(t, append([]byte(line), log...)).Total.Requests
	if got != want {
		t.Errorf("%d requests, want %d", got, want)
	}
}

// TestForecast has reads of every kind. All reads of one URL without a version that come while
// another one is under way cause one further question, whatever their number is.
func TestForecast(t *testing.T) {
	w := newLog()
	who := daemon("reader", 1)
	for i := range 5 {
		w.add(who, "get", "/api/v1/namespaces/a/pods/p", time.Minute+time.Duration(i)*10*time.Millisecond, time.Second, 200)
	}
	w.add(who, "get", "/api/v1/namespaces/a/pods/p", 2*time.Minute, time.Second, 200)
	w.add(who, "get", "/api/v1/namespaces/a/pods/q", time.Minute, time.Second, 200)
	w.add(who, "list", "/api/v1/pods?resourceVersion=0", time.Minute, time.Second, 200)
	w.add(who, "watch", "/api/v1/pods?watch=true&resourceVersion=5", time.Minute, time.Second, 200)
	w.add(who, "get", "/apis/apps/v1", time.Minute, time.Second, 200)
	w.add(who, "get", "/healthz", time.Minute, time.Second, 200)
	w.add(who, "get", "/api/v1/namespaces/a/pods/p/log", time.Minute, time.Second, 200)
	w.add(who, "create", "/api/v1/namespaces/a/pods", time.Minute, time.Second, 201)
	r := runAnalysis(t, w.bytes())
	if want := (Forecast{Reads: 11, Answered: 3, Shared: 3, Unproven: 4, PassedOn: 1}); *r.Replica != want {
		t.Errorf("got %+v, want %+v", *r.Replica, want)
	}
	if text := r.text("table", 5, 0); !strings.Contains(text, "about 27% of the reads would be answered there and 27% shared; behind a replica that follows etcd, 91%") {
		t.Errorf("got %s", text)
	}
}
