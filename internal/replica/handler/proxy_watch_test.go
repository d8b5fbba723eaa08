package handler_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/replica/handler"
)

// shutdownSignal is a request.ServerShutdownSignal.
type shutdownSignal chan struct{}

func (s shutdownSignal) Signal()                       { close(s) }
func (s shutdownSignal) ShuttingDown() <-chan struct{} { return s }

// startWatchFront starts a front of a handler whose upstream sends one event of a watch and then
// nothing, and waits for the end of each request. ended receives how the handler ended.
func startWatchFront(t *testing.T, shutdown shutdownSignal) (front *httptest.Server, ended chan any) {
	t.Helper()
	u := &fakeUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "event\n")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	t.Cleanup(u.Close)
	h := setup{refuses: handler.Excluded}.handler(t, u)
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	ended = make(chan any, 1)
	front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := resolver.NewRequestInfo(req)
		if err != nil {
			t.Error(err)
		}
		defer func() {
			value := recover()
			ended <- value
			if value != nil {
				panic(value)
			}
		}()
		h.ServeHTTP(w, req.WithContext(request.WithServerShutdownSignal(request.WithRequestInfo(req.Context(), info), shutdown)))
	}))
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)
	return front, ended
}

func openWatch(ctx context.Context, t *testing.T, front *httptest.Server) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+"/api/v1/secrets?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer tom")
	resp, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, len("event\n"))
	if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "event\n" {
		t.Fatalf("the watch begins with %q, %v", event, err)
	}
	return resp.Body
}

// TestShutdownEndsPassedOnWatches shuts down a replica with a watch that the upstream would keep.
// It ends as a whole body does.
func TestShutdownEndsPassedOnWatches(t *testing.T) {
	t.Parallel()
	shutdown := make(shutdownSignal)
	front, ended := startWatchFront(t, shutdown)
	body := openWatch(t.Context(), t, front)
	defer body.Close()
	shutdown.Signal()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { body.Close() })
	defer stop()
	if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
		t.Errorf("the watch ends with %q, %v", rest, err)
	}
	if value := <-ended; value != nil {
		t.Errorf("the handler panicked with %v", value)
	}
}

// TestClientEndsPassedOnWatch hangs up, which is no failure of the handler.
func TestClientEndsPassedOnWatch(t *testing.T) {
	t.Parallel()
	front, ended := startWatchFront(t, make(shutdownSignal))
	ctx, hangUp := context.WithCancel(t.Context())
	defer openWatch(ctx, t, front).Close()
	hangUp()
	if value := <-ended; value != nil {
		t.Errorf("the handler panicked with %v", value)
	}
}
