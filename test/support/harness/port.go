package harness

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// firstPort and lastPort bound the ports of servers. Kernels choose higher ports for outgoing
// connections, so no connection takes a port between FreePort and its use.
const (
	firstPort = 10000
	lastPort  = 32000
)

// FreePort returns a random port of the loopback address that no process uses. Because it is
// random, concurrent test packages choose different ports.
func FreePort(tb testing.TB) int {
	tb.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
		last = err
	}
	tb.Fatalf("find free port: %v", last)
	return 0
}
