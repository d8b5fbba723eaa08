package apifeed_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/feed/feedtest"
)

// bubble is an API server and a feed in a bubble of synctest, where hours take no time. They
// speak HTTP/2 over pipes, because a socket would keep the time from going on.
type bubble struct {
	*feedtest.APIServer
	*pipes
	client *http.Client
	sink   *feedtest.Sink
	feed   *apifeed.Feed
	ended  chan error
	log    logText
}

// logText gathers a log.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns the lines that have a text.
func (l *logText) lines(part string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}

// inBubble runs a test in a bubble. Its feed is made by follow.
func inBubble(t *testing.T, options feedtest.APIOptions, test func(*testing.T, *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{APIServer: feedtest.NewAPIHandler(options), pipes: newPipes()}
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Handler: b.APIServer, Protocols: protocols, ConnContext: b.pipes.number}
		go func() { _ = server.Serve(b.pipes) }()
		transport := &http.Transport{DialContext: b.pipes.dial, Protocols: protocols}
		b.client = &http.Client{Transport: transport}
		t.Cleanup(func() {
			transport.CloseIdleConnections()
			_ = server.Close()
			b.pipes.cut()
		})
		test(t, b)
	})
}

// follow runs a feed until the test ends.
func (b *bubble) follow(t *testing.T, change func(*apifeed.Config)) {
	b.sink = feedtest.NewSink(t)
	config := apifeed.Config{
		Client: b.client, URL: "http://server" + feedtest.CollectionPath, Prefix: feedtest.KeyPrefix, Sink: b.sink,
		Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	b.feed = apifeed.New(config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	f, ended := b.feed, make(chan error, 1)
	b.ended = ended
	go func() {
		defer close(done)
		ended <- f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// pass lets time go on.
func (b *bubble) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantApplied compares the revision that the sink has reached.
func (b *bubble) wantApplied(t *testing.T, want int64) {
	t.Helper()
	if got := b.sink.AppliedRevision(); got < want {
		t.Errorf("the sink has reached revision %d, want %d; the feed: %v", got, want, b.feed.Healthy())
	}
}

// wantRuns fails if the feed has ended.
func (b *bubble) wantRuns(t *testing.T) {
	t.Helper()
	select {
	case err := <-b.ended:
		t.Errorf("the feed has ended: %v", err)
	default:
	}
}

// wantWentBack waits for the end of the feed.
func (b *bubble) wantWentBack(t *testing.T) {
	t.Helper()
	b.pass(time.Minute)
	select {
	case err := <-b.ended:
		if !errors.Is(err, feed.ErrWentBack) {
			t.Errorf("Run returned %v", err)
		}
	default:
		t.Errorf("the feed goes on over another history; it is %v", b.feed.Healthy())
	}
}

// pipes are connections in memory. It is a net.Listener.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	close  func()
	mu     struct {
		sync.Mutex
		// made are all connections at the server's side.
		made []net.Conn
	}
}

func newPipes() *pipes {
	p := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.mu.Lock()
	p.mu.made = append(p.mu.made, theirs)
	p.mu.Unlock()
	select {
	case p.accept <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cut closes all connections.
func (p *pipes) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.mu.made {
		_ = conn.Close()
	}
}

type numberKey struct{}

// number notes in the context of a connection which one it is, from 1 on.
func (p *pipes) number(ctx context.Context, conn net.Conn) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.mu.made {
		if p.mu.made[i] == conn {
			return context.WithValue(ctx, numberKey{}, i+1)
		}
	}
	return ctx
}

// connection is the number of the connection that a request came by.
func connection(req *http.Request) int {
	number, _ := req.Context().Value(numberKey{}).(int)
	return number
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accept:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error { p.close(); return nil }

// Addr implements net.Listener.
func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
