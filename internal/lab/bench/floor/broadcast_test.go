package floor

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// newEventServer returns the URL of a floor server that has an event of about size bytes.
func newEventServer(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := testbed.WriteJSON(dir+"/"+manifestFile, []Body{}); err != nil {
		t.Fatal(err)
	}
	if err := WriteWatchEvent(dir, fmt.Appendf(nil, `{"kind":"ConfigMap","data":{"x":%q}}`, strings.Repeat("x", size))); err != nil {
		t.Fatal(err)
	}
	s, err := newServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

// get sends a request, which ends with ctx.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// TestOverlappingEmits lets several clients emit large events at the same time. A stream must receive
// all events.
func TestOverlappingEmits(t *testing.T) {
	const emitters, query = 8, "?events=200&rate=1e9"
	url := newEventServer(t, 32<<10)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := get(ctx, url+WatchPath)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	var group sync.WaitGroup
	for range emitters {
		group.Go(func() {
			resp, err := get(ctx, url+emitPath+query)
			if err != nil {
				t.Errorf("emit: %v", err)
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("emit: %s", resp.Status)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	lines := bufio.NewScanner(stream.Body)
	for n := range emitters * 200 {
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d events: %v", n, lines.Err())
		}
	}
}

// TestStreamsBeginWithTheirHeader emits an event as soon as a client has the header of a stream. The
// stream must receive it.
func TestStreamsBeginWithTheirHeader(t *testing.T) {
	for _, path := range []string{WatchPath, RecordsPath} {
		url := newEventServer(t, 0)
		for n := range 300 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			stream, err := get(ctx, url+path)
			if err != nil {
				t.Fatal(err)
			}
			emitted, err := get(ctx, url+emitPath+"?events=1&rate=1e9")
			if err != nil {
				t.Fatal(err)
			}
			emitted.Body.Close()
			if !bufio.NewScanner(stream.Body).Scan() {
				t.Fatalf("%s: stream %d missed an event", path, n)
			}
			stream.Body.Close()
			cancel()
		}
	}
}

// TestEmitNeedsARate checks that a rate at which no event is ever due is refused.
func TestEmitNeedsARate(t *testing.T) {
	url := newEventServer(t, 0)
	for _, rate := range []string{"0", "-1", "NaN", ""} {
		resp, err := get(t.Context(), url+emitPath+"?events=2&rate="+rate)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("rate %q: %s", rate, resp.Status)
		}
	}
}
