package floor

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// records are watches over HTTP/1.1 that one goroutine sends events to in turn: for
// each a TLS record and a system call, and nothing else. Who has a connection for
// each watch cannot take less.
type records struct {
	mu struct {
		sync.Mutex
		conns []net.Conn
	}
}

// watch takes the connection over from the HTTP server, behind the header.
func (x *records) watch(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", testbed.AcceptJSON)
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil {
		return // the client has gone
	}
	conn, _, err := control.Hijack()
	if err != nil {
		return // HTTP/2: it ends here
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.conns = append(x.mu.conns, conn)
}

// send sends an event to all whose clients are there.
func (x *records) send(event []byte) {
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(event), event)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.conns = slices.DeleteFunc(x.mu.conns, func(conn net.Conn) bool {
		_, err := conn.Write(chunk)
		if err != nil {
			_ = conn.Close() // its client has gone
		}
		return err != nil
	})
}

// close ends all.
func (x *records) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, conn := range x.mu.conns {
		_ = conn.Close()
	}
	x.mu.conns = nil
}
