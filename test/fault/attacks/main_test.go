// Package attacks runs known attacks on HTTP/2 and TLS servers. `make attacks` compares
// this server with Go's own, which the stock read path uses; it takes long, and writes
// docs/bench/tables/attacks.md. `go test` runs each attack for a moment against this server
// alone. `make attacks-replica` and `go test` do the same with a replica in front of a stock
// server, and look at what reaches that one.
//
// Each attacker is a process of its own, and so is each server. The test's process is an
// honest client: it reads an object every 20 ms and follows a watch. The attacks must not
// disturb it, nor take unbounded memory.
package attacks

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// durationVariable enables the comparison. Its value is the duration of each attack.
	durationVariable = "MILLRACE_ATTACKS"
	// replicaDurationVariable is the same for the attacks on a replica.
	replicaDurationVariable = "MILLRACE_REPLICA_ATTACKS"
	// onlyVariable is a regular expression that selects attacks by the titles of their lines.
	onlyVariable = "MILLRACE_ATTACKS_ONLY"
	// tableVariable is the path of the file that the table is written to.
	tableVariable = "MILLRACE_ATTACKS_TABLE"
	// attackerVariable makes the test binary an attacker. Its value is an attackerSpec in
	// JSON.
	attackerVariable = "MILLRACE_TEST_RUN_ATTACKER"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(attackerVariable); spec != "" {
		os.Exit(runAttacker(spec))
	}
	harness.Main(m)
}

const (
	// smokeTime is the duration of each attack in TestAttacksEndBounded.
	smokeTime = 300 * time.Millisecond
	// settleTime is the pause between attacks, in which a server may free memory.
	settleTime = time.Second
)

// TestAttacksEndBounded runs each attack for a moment. The honest client must be served,
// and the server's memory must stay bounded.
func TestAttacksEndBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	ours := startOurs(t)
	h := newHonestClient(t, ours)
	idle := ours.usage(t)
	for i, a := range attacks() {
		if a.name == noAttack {
			continue
		}
		r := runAttack(t, h, &attack{name: a.name, conns: 4, credentials: i%2 == 0 && a.requests}, smokeTime)
		t.Logf("%s: %+v, %+v, peak %d MB", a.name, r.Attacker, r.Honest, r.Peak>>20)
		if r.Honest.Gets == 0 || r.Honest.Failed > 0 {
			t.Errorf("%s: of %d requests of an honest client %d failed: %v", a.name, r.Honest.Gets, r.Honest.Failed, r.Honest.Err)
		}
		if grown := ours.usage(t).rss - idle.rss; grown > smokeBound {
			t.Fatalf("%s: the idle server uses %d MB more than before the attacks", a.name, grown>>20)
		}
	}
}

// smokeBound is how much memory all these attacks together may leave in use.
const smokeBound = 192 << 20

// TestAttacks compares this server with Go's.
func TestAttacks(t *testing.T) {
	text := os.Getenv(durationVariable)
	if text == "" {
		t.Skipf("takes an hour: %s=30s or make attacks runs it", durationVariable)
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	servers := []*honestClient{newHonestClient(t, startOurs(t)), newHonestClient(t, startStock(t))}
	table := &report{Duration: duration}
	for _, a := range tableRows(t, attacks(), 1, 50) {
		l := compare(t, servers, a, duration)
		for turn := 1; turn < maxAttempts && len(l.faults(duration)) > 0; turn++ {
			if again := compare(t, servers, a, duration); len(again.faults(duration)) < len(l.faults(duration)) {
				l = again
			}
		}
		t.Log(l)
		if faults := l.faults(duration); len(faults) > 0 {
			t.Errorf("%s: %s", l.title(), strings.Join(faults, ", "))
		}
		table.lines = append(table.lines, l)
	}
	if path := os.Getenv(tableVariable); path != "" {
		if err := os.WriteFile(path, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// maxAttempts bounds how often an attack is repeated if it looks worse than on Go's
// server: other load on the machine may be the cause.
const maxAttempts = 3

// compare attacks the servers in turn.
func compare(t *testing.T, servers []*honestClient, a *attack, duration time.Duration) *tableLine {
	t.Helper()
	l := &tableLine{attack: *a}
	for i, h := range servers {
		<-time.After(settleTime)
		r := runAttack(t, h, a, duration)
		if i == 0 && r.Peak > a.memoryLimit() {
			r.Growth = max(0, runAttack(t, h, a, longerAttack*duration).Highest-r.Highest)
		}
		l.results = append(l.results, r)
	}
	return l
}
