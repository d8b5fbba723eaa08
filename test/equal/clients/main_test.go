// Package clients tests servers with clients that others wrote: curl, and
// clients of Python, Node and Java. Each client has a script that uses it as
// its users do, and that prints a line of JSON for each check. Scripts start no
// servers. The Go tests start the servers, run the scripts and judge their
// output.
//
// The tests skip a client that is not installed and say what is missing. `make
// clients` installs those of Python and Node. MILLRACE_CLIENT_REPEAT=5 repeats
// requests five times as often. MILLRACE_GUNZIP_CLIENTS names further decoders of
// gzip for TestGunzip.
package clients

import (
	"os"
	"strconv"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// repeatVariable multiplies the repetitions of checks that fail at random.
const repeatVariable = "MILLRACE_CLIENT_REPEAT"

func TestMain(m *testing.M) { harness.Main(m) }

func repeat() string {
	if n, err := strconv.Atoi(os.Getenv(repeatVariable)); err == nil && n > 0 {
		return strconv.Itoa(n)
	}
	return "1"
}

// TestClients is one test with parts, since all clients share its servers. The
// parts that end a server come last, followed by the part that needs a server
// which closes connections.
func TestClients(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	t.Run("clients", func(t *testing.T) {
		for _, c := range clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.need(t)
				e.compare(t, c)
			})
		}
	})
	t.Run("restart", e.restart)
	t.Run("goaway", func(t *testing.T) {
		for _, c := range clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.need(t)
				judge(t, c, "goaway", e.ours.start(t, c, "goaway").end(), nil)
			})
		}
	})
}

// restart replaces our server while all clients use it. Its successor sends
// GOAWAY as often as Kubernetes allows.
func (e *environment) restart(t *testing.T) {
	ours := e.ours.replace(t, "--goaway-chance=0.02")
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			c.need(t)
			judge(t, c, "restart", ours[c.name], nil)
		})
	}
}
