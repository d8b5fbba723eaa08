package read_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/read"
)

// loadingSource has no objects before the first load.
type loadingSource struct{ *fakeSource }

func (s loadingSource) Begin(ctx context.Context, key string, opts storage.ListOptions) (cache.StartPoint, error) {
	if s.Progress().Revision() == 0 {
		return cache.StartPoint{}, cache.ErrNotReady
	}
	return s.fakeSource.Begin(ctx, key, opts)
}

// scriptedServer answers watches with the frames that a test gives.
type scriptedServer struct {
	// frames are sent to the watch that is open. ended gets a value when it has ended.
	frames chan string
	ended  chan struct{}
	asked  chan *http.Request
}

func (s *scriptedServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.asked <- req
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	defer func() { s.ended <- struct{}{} }()
	for {
		select {
		case frame, ok := <-s.frames:
			if !ok {
				return
			}
			// An event may come in pieces.
			at := rand.IntN(len(frame))
			for _, part := range []string{frame[:at], frame[at:]} {
				if _, err := w.Write([]byte(part)); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
		case <-req.Context().Done():
			return
		}
	}
}

// startBeforeOther starts a replica's tier in front of an scriptedServer.
func startBeforeOther(t *testing.T, http2 bool) (*watchServer, *scriptedServer) {
	t.Helper()
	env := newWatchServer(t, http2, func(c *read.RouteConfig) { c.Objects = loadingSource{c.Objects.(*fakeSource)} })
	other := &scriptedServer{frames: make(chan string), ended: make(chan struct{}, 200), asked: make(chan *http.Request, 200)}
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	env.serveBeforeOther(httputil.NewSingleHostReverseProxy(to))
	return env, other
}

// frame is an event of a config map in namespace one, or a bookmark.
func frame(kind, name string, revision int64) string {
	annotations := ""
	if kind == "END" {
		kind, annotations = "BOOKMARK", `"annotations":{"k8s.io/initial-events-end":"true"},`
	}
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"one",%s"resourceVersion":"%d"}}}`+"\n", kind, name, annotations, revision)
}

const watchListQuery = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// TestTakeOver begins watches at another server, which the tier takes over once it has loaded.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, query string
		// frames are the other server's, and want is what the client has got of them.
		frames, want []string
		// later is what the client gets of the cache.
		later []string
	}{
		{
			"watch-list", watchListQuery, []string{frame("ADDED", "a", 1), frame("ADDED", "b", 90), frame("END", "", 100)},
			[]string{"ADDED a 1", "ADDED b 90", "BOOKMARK  100"}, []string{"MODIFIED a 101", "ADDED c 102"},
		}, {
			"the other server is ahead", watchListQuery, []string{frame("END", "", 100), frame("MODIFIED", "a", 101)},
			[]string{"BOOKMARK  100", "MODIFIED a 101"}, []string{"ADDED c 102"},
		}, {
			"no bookmarks", "?watch=1&resourceVersion=60", []string{frame("MODIFIED", "a", 70), frame("BOOKMARK", "", 100)},
			[]string{"MODIFIED a 70"}, []string{"MODIFIED a 101", "ADDED c 102"},
		}, {
			"initial events without an end", "?watch=1&resourceVersion=0", []string{frame("ADDED", "b", 90), frame("ADDED", "a", 1), frame("DELETED", "b", 100)},
			[]string{"ADDED b 90", "ADDED a 1", "DELETED b 100"}, []string{"MODIFIED a 101", "ADDED c 102"},
		},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", c.name, http2), func(t *testing.T) {
				t.Parallel()
				env, other := startBeforeOther(t, http2)
				s := env.watch(t, listPath+c.query, nil)
				for i := range c.frames {
					other.frames <- c.frames[i]
				}
				s.want(t, c.want...)
				env.load(t, "one/a")
				env.put(t, "one/a", "x", 101)
				<-other.ended
				env.put(t, "one/c", "x", 102)
				s.want(t, c.later...)
				close(env.shutdown)
				for last := s.next(t); last != "end"; last = s.next(t) {
					if !strings.HasPrefix(last, "BOOKMARK") {
						t.Errorf("got %q at the end", last)
					}
				}
				if asked := (<-other.asked).URL.Query(); asked.Get("allowWatchBookmarks") != "true" {
					t.Errorf("the other server was asked for %v", asked)
				}
			})
		}
	}
}

// TestTakeOverOfCompressedWatches begins compressed watches at another server, which sends plain
// events. Each is one member of gzip, wherever its events come from, and whoever ends it.
func TestTakeOverOfCompressedWatches(t *testing.T) {
	t.Parallel()
	for decoder := range gunzips {
		for _, http2 := range []bool{false, true} {
			for _, takenOver := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, HTTP/2 %v, taken over %v", decoder, http2, takenOver), func(t *testing.T) {
					t.Parallel()
					env, other := startBeforeOther(t, http2)
					s := env.gunzipBy(t, decoder, watchListQuery)
					other.frames <- frame("ADDED", "a", 1)
					s.want(t, "ADDED a 1")
					other.frames <- frame("END", "", 100)
					s.want(t, "BOOKMARK  100")
					if takenOver {
						env.load(t, "one/a")
						env.put(t, "one/a", "x", 101)
						<-other.ended
						env.put(t, "one/a", strings.Repeat("x", 40<<10), 102)
						s.want(t, "MODIFIED a 101", "MODIFIED a 102")
						close(env.shutdown)
					} else {
						close(other.frames)
					}
					s.checkEnd(t)
				})
			}
		}
	}
}

// TestTakeOverOfHistory watches from revisions that only another server may have.
func TestTakeOverOfHistory(t *testing.T) {
	t.Parallel()
	env, other := startBeforeOther(t, true)
	env.load(t, "one/a")
	env.put(t, "one/a", "x", 101)
	s := env.watch(t, listPath+"?watch=1&resourceVersion=50&timeoutSeconds=3", nil)
	other.frames <- frame("MODIFIED", "a", 101)
	<-other.ended
	s.want(t, "MODIFIED a 101")
	env.put(t, "one/b", "x", 102)
	s.want(t, "ADDED b 102", "end")

	// 410 is the other server's to say.
	s = env.watch(t, listPath+"?watch=1&resourceVersion=50", nil)
	other.frames <- `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"Expired","code":410}}` + "\n"
	other.frames <- frame("MODIFIED", "nothing follows an error that could be taken over", 102)
	s.want(t, "ERROR 410 Expired", "MODIFIED nothing follows an error that could be taken over 102")
	close(other.frames)
	s.want(t, "end")

	// Many at once get it from here.
	env, other = startBeforeOther(t, true)
	env.load(t, "one/a")
	for range 128 {
		env.watch(t, listPath+"?watch=1&resourceVersion=50", nil)
	}
	env.watch(t, listPath+"?watch=1&resourceVersion=50", nil).want(t, "ERROR 410 Expired")
}

// TestPassedOnWatchesAreCounted opens a watch that is taken over and one that is not. Each is
// counted as long as the other server sends its events.
func TestPassedOnWatchesAreCounted(t *testing.T) {
	t.Parallel()
	env, other := startBeforeOther(t, true)
	watches := slo.NewWatches(slo.Config{})
	env.tier.SetAccounts(nil, watches)
	want := func(reasons ...string) {
		t.Helper()
		var got []string
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			got = nil
			for _, row := range watches.Watchers().PassedOnBy {
				got = append(got, fmt.Sprint(row.Watches, " ", row.Resource, " ", row.Reason))
			}
			return slices.Equal(got, reasons), nil
		})
		if err != nil {
			t.Fatalf("passed on are %q, want %q", got, reasons)
		}
	}
	s := env.watch(t, listPath+"?watch=1&resourceVersion=50", nil)
	want("1 configmaps loading")
	env.load(t, "one/a")
	other.frames <- frame("MODIFIED", "a", 100)
	<-other.ended
	want()
	env.put(t, "one/a", "x", 101)
	s.want(t, "MODIFIED a 100", "MODIFIED a 101")
	env.watch(t, listPath+"?watch=1", http.Header{"Accept": {"application/yaml"}})
	want("1 configmaps accept")
	close(other.frames)
	want()
}

// TestTakeOverOfTables takes watches of tables over: the columns are in the first event alone.
func TestTakeOverOfTables(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]string{
		"nothing was sent": nil,
		"columns were sent": {`{"type":"MODIFIED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"100"},` +
			`"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"","priority":0}],"rows":[]}}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, other := startBeforeOther(t, true)
			s := env.watch(t, listPath+"?watch=1&resourceVersion=99", http.Header{"Accept": {"application/json;as=Table;v=v1;g=meta.k8s.io"}})
			for _, frame := range sent {
				other.frames <- frame
			}
			env.load(t, "one/a")
			if len(sent) == 0 {
				other.frames <- frame("BOOKMARK", "", 100)
			}
			<-other.ended
			env.put(t, "one/a", "x", 101)
			env.put(t, "one/b", "x", 102)
			for i := range 2 + len(sent) {
				if !s.lines.Scan() {
					t.Fatal("the watch has ended")
				}
				var event struct {
					Object struct{ ColumnDefinitions []any }
				}
				if err := json.Unmarshal(s.lines.Bytes(), &event); err != nil {
					t.Fatal(err)
				}
				if has := len(event.Object.ColumnDefinitions) > 0; has != (i == 0) {
					t.Errorf("event %d: %s", i, s.lines.Bytes())
				}
			}
		})
	}
}

// TestTakeOverUnderWrites sends events to the cache and to the other server's watch at random times.
// The client gets each once, in order.
func TestTakeOverUnderWrites(t *testing.T) {
	t.Parallel()
	const writes = 60
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			env, other := startBeforeOther(t, seed%2 == 0)
			s := env.watch(t, listPath+"?watch=1&resourceVersion=100", nil)
			loadAt, pauses := random.IntN(writes), []int{random.IntN(3), random.IntN(3)}
			go func() {
				for i := range int64(writes) {
					select {
					case other.frames <- frame("ADDED", fmt.Sprint("n", i), 101+i):
					case <-other.ended:
						return
					}
					<-time.After(time.Duration(random.IntN(1+pauses[0])) * time.Millisecond)
				}
			}()
			applied := make(chan struct{})
			go func() {
				defer close(applied)
				for i := range int64(writes) {
					if i == int64(loadAt) {
						env.load(t)
						for back := range i {
							env.put(t, fmt.Sprint("one/n", back), "x", 101+back)
						}
					}
					if i >= int64(loadAt) {
						env.put(t, fmt.Sprint("one/n", i), "x", 101+i)
					}
					<-time.After(time.Duration(pauses[1]) * time.Millisecond)
				}
			}()
			for i := range writes {
				s.want(t, fmt.Sprintf("ADDED n%d %d", i, 101+i))
			}
			<-applied
			close(env.shutdown)
			s.want(t, "end")
		})
	}
}
