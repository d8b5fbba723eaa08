package robustness

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// connections is the number of connections. It is large enough that no stream
// has to wait.
const connections = 4

// listers are clients that LIST all config maps with resourceVersion unset.
type listers struct {
	clients []rest.Interface
	size    int // bytes of the whole answer

	mu struct {
		sync.Mutex
		answered int
		retried  map[string]int // counts by reason
	}
}

func newListers(t *testing.T, s *harness.Server) *listers {
	t.Helper()
	l := &listers{}
	for range connections {
		config := s.Config()
		config.ContentType = "application/vnd.kubernetes.protobuf"
		// Clients with different dialers do not share a connection.
		config.Dial = (&net.Dialer{}).DialContext
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatalf("make client: %v", err)
		}
		l.clients = append(l.clients, client.CoreV1().RESTClient())
	}
	var all corev1.ConfigMapList
	raw, err := l.list(t.Context(), l.clients[0]).Raw()
	if err != nil {
		t.Fatalf("first LIST: %v", err)
	}
	if err := l.list(t.Context(), l.clients[0]).Into(&all); err != nil || len(all.Items) < objects {
		t.Fatalf("first LIST has %d of %d objects, %v", len(all.Items), objects, err)
	}
	l.size = len(raw)
	return l
}

// list sends one request. client-go's own retries are turned off, since they
// would hide errors.
func (l *listers) list(ctx context.Context, client rest.Interface) rest.Result {
	return client.Get().Resource("configmaps").MaxRetries(0).Do(ctx)
}

// untilAnswered lets all readers LIST until each has received its list once,
// and waits for them. It resets the counts first.
func (l *listers) untilAnswered(t *testing.T) {
	t.Helper()
	l.mu.answered, l.mu.retried = 0, make(map[string]int)
	var group sync.WaitGroup
	for i := range readers {
		group.Go(func() {
			for !l.attempt(t, l.clients[i%connections]) {
			}
		})
	}
	group.Wait()
}

// attempt sends one LIST and reports whether the reader is done. After a
// retriable error it waits as long as the server says, as client-go does.
func (l *listers) attempt(t *testing.T, client rest.Interface) (done bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := l.list(ctx, client).Raw()
	switch {
	case err == nil && (len(raw) < l.size-64 || len(raw) > l.size+64):
		t.Errorf("a LIST of %d bytes, want %d", len(raw), l.size)
		return true
	case err == nil:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.answered++
		return true
	case !retriable(err):
		t.Errorf("LIST: %v (%T): not an error that clients retry on", err, err)
		return true
	}
	l.mu.Lock()
	l.mu.retried[string(apierrors.ReasonForError(err))]++
	l.mu.Unlock()
	seconds, _ := apierrors.SuggestsClientDelay(err)
	after(t, time.Duration(seconds)*time.Second)
	return t.Context().Err() != nil
}

// retriable reports whether clients retry on err: the answer says so, or the
// connection was lost.
func retriable(err error) bool {
	_, delay := apierrors.SuggestsClientDelay(err)
	return delay || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) ||
		utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err)
}

func (l *listers) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, count := range l.mu.retried {
		n += count
	}
	return n
}

func (l *listers) attempts() int { return l.failures() + l.mu.answered }

func (l *listers) String() string {
	return fmt.Sprintf("%d answered, to be retried by reason: %v", l.mu.answered, l.mu.retried)
}
