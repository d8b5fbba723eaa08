package read_test

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"
)

// TestSendAway has two clients with two watches each, and sends two watches away. One client
// must be told: its watches end behind their events and a bookmark, and its next watch goes
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

// TestDrainIsATrickle ends many watches. They may not all end at once, and no later than the
// drain time.
func TestDrainIsATrickle(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a")
	const watches = 60
	ends := make(chan time.Time, watches)
	for i := range watches {
		s := env.watch(t, fmt.Sprintf("%s?watch=1&resourceVersion=100&allowWatchBookmarks=true&i=%d", listPath, i), nil)
		go func() {
			for s.lines.Scan() {
			}
			ends <- time.Now()
		}()
	}
	waitUntil(t, "watches", func() bool { return env.tier.Watches() == watches })
	began := time.Now()
	close(env.shutdown)
	var first, last time.Time
	for i := range watches {
		at := <-ends
		if i == 0 {
			first = at
		}
		last = at
	}
	// 5 ms for each watch.
	if spread := last.Sub(first); spread < 200*time.Millisecond {
		t.Errorf("all watches ended within %v", spread)
	}
	if took := last.Sub(began); took > 5*time.Second {
		t.Errorf("the last watch ended after %v", took)
	}
}
