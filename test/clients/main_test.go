// Package clients tries servers with clients that others wrote: curl, and those of
// Python, Node and Java. Each client has a script, which does what its users do and
// prints a line of JSON for each check. The scripts know no server of their own: Go
// starts the servers, runs the scripts and judges what they print.
//
// A client that is not there is left out, and the test says what is missing. `make
// clients` installs those of Python. MILLRACE_CLIENT_REPEAT=5 asks five times as often.
package clients

import (
	"os"
	"strconv"
	"testing"

	"github.com/millrace/millrace/test/harness"
)

// repeatVariable multiplies how often scripts repeat what fails by chance.
const repeatVariable = "MILLRACE_CLIENT_REPEAT"

func TestMain(m *testing.M) { harness.Main(m) }

func repeat() string {
	if n, err := strconv.Atoi(os.Getenv(repeatVariable)); err == nil && n > 0 {
		return strconv.Itoa(n)
	}
	return "1"
}

// TestClients is one test, for all clients share its servers. What ends a server comes
// last, and then what needs one that closes connections.
func TestClients(t *testing.T) {
	w := newEnvironment(t)
	t.Run("clients", func(t *testing.T) {
		for _, c := range clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.need(t)
				w.compare(t, c)
			})
		}
	})
	t.Run("restart", w.restart)
	t.Run("goaway", func(t *testing.T) {
		for _, c := range clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.need(t)
				judge(t, c, "goaway", w.ours.start(t, c, "goaway").end(), nil)
			})
		}
	})
}

// restart replaces our server while all clients use it. Its successor sends GOAWAY, as
// often as Kubernetes allows.
func (w *environment) restart(t *testing.T) {
	ours := w.ours.replace(t, "--goaway-chance=0.02")
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			c.need(t)
			judge(t, c, "restart", ours[c.name], nil)
		})
	}
}
