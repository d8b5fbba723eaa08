package floor

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// recordStreams are the streams of RecordsPath, over HTTP/1.1. The goroutine that calls send writes
// the event to one connection after another: a TLS record and a system call for each. A server
// with a connection for each watch cannot do less. A client that does not read delays all others.
// The zero value is ready to use.
type recordStreams struct {
	mu struct {
		sync.Mutex
		conns []net.Conn
	}
}

// watch handles requests of RecordsPath. It writes the header, and takes the connection over
// from the HTTP server. A client that has the header gets each event that is sent from then on,
// because send waits for mu.
func (s *recordStreams) watch(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", testbed.AcceptJSON)
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil {
		return // the client has gone
	}
	conn, _, err := control.Hijack()
	if err != nil {
		return // HTTP/2 has no connection to take over
	}
	s.mu.conns = append(s.mu.conns, conn)
}

// send writes an event to all streams as a chunk of HTTP/1.1, and closes the streams whose clients
// have gone.
func (s *recordStreams) send(event []byte) {
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(event), event)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.conns = slices.DeleteFunc(s.mu.conns, func(conn net.Conn) bool {
		_, err := conn.Write(chunk)
		if err != nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

// close closes all streams.
func (s *recordStreams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.mu.conns {
		_ = conn.Close()
	}
	s.mu.conns = nil
}
