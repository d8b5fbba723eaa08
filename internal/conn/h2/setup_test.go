package h2_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/conn/pull"
	"github.com/millrace/millrace/test/support/benchclient"
)

// testTimeout bounds how long a test waits for something that must happen.
const testTimeout = 20 * time.Second

// TestMain fails if goroutines of package h2 are left over.
func TestMain(m *testing.M) {
	if task := benchclient.Task(); task != "" {
		benchClient(task)
		return
	}
	code := m.Run()
	if left := leftOverGoroutines(); code == 0 && left != "" {
		os.Stderr.WriteString("goroutines left over:\n" + left + "\n")
		code = 1
	}
	os.Exit(code)
}

// leftOverGoroutines waits for the goroutines of servers to end. It returns the stacks of
// the goroutines that do not end in time.
func leftOverGoroutines() string {
	deadline := time.Now().Add(testTimeout)
	for {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for _, stack := range strings.Split(string(stacks), "\n\n")[1:] {
			if strings.Contains(stack, "internal/conn/h2.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		runtime.Gosched()
	}
}

// testServer is an http.Server over TLS on the loopback interface.
type testServer struct {
	*http.Server
	addr string
	log  syncBuffer
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// goServer configures Go's own HTTP/2 server, as Kubernetes does.
func goServer(hs *http.Server) error {
	return http2.ConfigureServer(hs, &http2.Server{
		MaxConcurrentStreams: 100, MaxUploadBufferPerStream: 256 << 10,
		MaxUploadBufferPerConnection: 100 * 256 << 10, MaxReadFrameSize: 256 << 10,
	})
}

// ours configures the server of package h2.
func ours(cfg h2.Config) func(*http.Server) error {
	return func(hs *http.Server) error { return h2.New(cfg).Configure(hs) }
}

var certificate = sync.OnceValue(func() tls.Certificate {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return s.TLS.Certificates[0]
})

// serve serves until the test ends. edits change the http.Server before it is configured.
func serve(t testing.TB, handler http.Handler, configure func(*http.Server) error, edits ...func(*http.Server)) *testServer {
	t.Helper()
	s := &testServer{Server: &http.Server{Handler: handler, MaxHeaderBytes: 64 << 10}}
	s.ErrorLog = log.New(&s.log, "", 0)
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate()}}
	for _, edit := range edits {
		edit(s.Server)
	}
	if err := configure(s.Server); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(pull.NewListener(l, 0), "", "") }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

func (s *testServer) url(path string) string { return "https://" + s.addr + path }

// client makes a client with one connection.
func (s *testServer) client(t testing.TB) *http.Client {
	transport := &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// testContext is a context that ends if the test hangs.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}
