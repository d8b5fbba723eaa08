package read_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/conn/pull"
)

// TestSendAway has two clients with two watches each, and sends two watches away. One client
// must be told: its watches end after their events and a bookmark, and its next watch goes
// over another connection. The other client notices nothing.
func TestSendAway(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a")
	clients := []*http.Client{env.server.Client(), {Transport: env.server.Client().Transport.(*http.Transport).Clone()}}
	var streams [2][2]*stream
	for i, client := range clients {
		for j := range streams[i] {
			streams[i][j] = env.watchBy(t, client, listPath+"?watch=1&resourceVersion=100&allowWatchBookmarks=true", nil)
		}
	}
	waitUntil(t, "watches", func() bool { return env.tier.Watches() == 4 })
	env.put(t, "one/a", "x", 101)
	env.tier.SendAway(t.Context(), 2, 50*time.Millisecond)
	waitUntil(t, "two watches are left", func() bool { return env.tier.Watches() == 2 })
	env.put(t, "one/a", "y", 102)
	told := 0
	for i := range streams {
		before := ""
		for _, s := range streams[i] {
			s.want(t, "MODIFIED a 101")
			frame := s.next(t)
			if frame == "BOOKMARK  101" {
				told++
				s.want(t, "end")
			} else if frame != "MODIFIED a 102" {
				t.Errorf("got %q", frame)
			}
			if before != "" && before != frame {
				t.Errorf("watches of one connection got %q and %q", before, frame)
			}
			before = frame
		}
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, env.server.URL+listPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := clients[i].Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if wasTold := before == "BOOKMARK  101"; reused == wasTold {
			t.Errorf("client %d was told: %v, and uses its connection again: %v", i, wasTold, reused)
		}
	}
	if told != 2 {
		t.Errorf("%d watches were sent away", told)
	}
}

// TestSendAwayLeavesLargeConnections asks for fewer watches than half of a connection's.
func TestSendAwayLeavesLargeConnections(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a")
	for range 5 {
		env.watch(t, listPath+"?watch=1&resourceVersion=100", nil)
	}
	waitUntil(t, "watches", func() bool { return env.tier.Watches() == 5 })
	env.tier.SendAway(t.Context(), 2, time.Millisecond)
	if n := env.tier.Watches(); n != 5 {
		t.Errorf("%d watches are left", n)
	}
	env.tier.SendAway(t.Context(), 3, time.Millisecond)
	waitUntil(t, "no watch is left", func() bool { return env.tier.Watches() == 0 })
}

// TestWatchesOverHTTP1 are not counted: there is no way to ask for another connection.
func TestWatchesOverHTTP1(t *testing.T) {
	env := newWatchServer(t, false)
	env.load(t, "one/a")
	s := env.watch(t, listPath+"?watch=1&resourceVersion=100", nil)
	env.put(t, "one/a", "x", 101)
	s.want(t, "MODIFIED a 101")
	if n := env.tier.Watches(); n != 0 {
		t.Errorf("%d watches could be sent away", n)
	}
}

// drainedConn is a connection whose client reads all that it is sent.
type drainedConn struct {
	*httptest.ResponseRecorder
	woken chan struct{}
}

// Pull implements pull.Puller.
func (c *drainedConn) Pull(ctx context.Context, source pull.Source) error {
	for {
		chunks, more, err := source.Next(nil, 16<<10)
		for _, chunk := range chunks {
			_, _ = c.Write(chunk)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case more:
			continue
		}
		select {
		case <-c.woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *drainedConn) Wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}
func (c *drainedConn) Waits() (window, write time.Time)   { return time.Time{}, time.Time{} }
func (c *drainedConn) WithLock(use func(returned uint64)) { use(0) }

// TestDrainIsATrickle ends many watches, after a bookmark each, at Kubernetes' pace: 200 in
// a second. If that would take longer than the drain time, they end evenly within it. The
// clock is synctest's, so a busy machine changes nothing.
func TestDrainIsATrickle(t *testing.T) {
	for _, c := range []struct{ watches, tenths int }{{watches: 60, tenths: 3}, {watches: 400, tenths: 10}} {
		t.Run(fmt.Sprint(c.watches), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDrain(t, c.watches, c.tenths) })
		})
	}
}

// testDrain expects that watches end evenly within some tenths of a second.
func testDrain(t *testing.T, watches, tenths int) {
	env := newHandTier(t)
	env.shutdown = make(chan struct{})
	env.load(t, "one/a")
	factory := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	ends := make(chan time.Time, watches)
	for range watches {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, bookmarkPath, nil)
		info, err := factory.NewRequestInfo(req)
		if err != nil {
			t.Fatal(err)
		}
		ctx := request.WithServerShutdownSignal(request.WithRequestInfo(req.Context(), info), env)
		conn := &drainedConn{ResponseRecorder: httptest.NewRecorder(), woken: make(chan struct{}, 1)}
		go func() {
			env.handler.ServeHTTP(conn, req.WithContext(ctx))
			ends <- time.Now()
			if body := conn.Body.String(); strings.Count(body, "\n") != 1 || !strings.HasPrefix(body, `{"type":"BOOKMARK"`) {
				t.Errorf("a watch ended behind %q", body)
			}
		}()
	}
	synctest.Wait()
	began := time.Now()
	close(env.shutdown)
	ended := make([]int, tenths)
	for range watches {
		if tenth := int((<-ends).Sub(began) / (100 * time.Millisecond)); tenth < tenths {
			ended[tenth]++
		}
	}
	<-time.After(time.Second) // the drain's goroutine ends, too
	for tenth, n := range ended {
		if want := watches / tenths; n != want {
			t.Errorf("%d watches ended in tenth %d of a second, want %d", n, tenth, want)
		}
	}
}
