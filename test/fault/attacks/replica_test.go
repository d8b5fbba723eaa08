package attacks

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// front is a replica in front of a stock server, with honest clients of both.
type front struct {
	replica, direct *honestClient
	agents          *agents
}

func startFront(t *testing.T) *front {
	t.Helper()
	upstream := startStock(t)
	replica := &server{harness.StartReplica(t, upstream.Server, "--follow=configmaps,services"), "replica", "/version"}
	f := &front{newHonestClient(t, replica), newHonestClient(t, upstream), &agents{server: replica, client: newClient(t)}}
	for i := range knownAgents {
		if err := harness.Until(honestTimeout, func() error { return f.agents.read(agentToken(i)) }); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// frontResult is how a replica fared under an attack, and what reached its upstream.
type frontResult struct {
	*result
	Agents agentReads
	// AtReplica is the part of the agents' reads that the replica answered by itself.
	AtReplica float64
	// UpstreamCPU is the CPU time of the upstream. Tokens and Rights are the reviews that the
	// replica asked it for.
	UpstreamCPU    time.Duration
	Tokens, Rights int
}

// run attacks the replica.
func (f *front) run(t *testing.T, a *attack, duration time.Duration) *frontResult {
	t.Helper()
	before, cpu := f.counts(t), f.direct.usage(t).cpu
	r := &frontResult{}
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var reading sync.WaitGroup
	reading.Go(func() { r.Agents = f.agents.run(ctx) })
	r.result = runAttack(t, f.replica, a, duration)
	reading.Wait()
	after := f.counts(t)
	r.UpstreamCPU = f.direct.usage(t).cpu - cpu
	r.Tokens, r.Rights = int(after.tokens-before.tokens), int(after.rights-before.rights)
	r.AtReplica = 1 - (after.agents-before.agents)/float64(r.Agents.Reads)
	return r
}

// upstreamCounts are numbers of requests that have reached the upstream.
type upstreamCounts struct{ tokens, rights, agents float64 }

func (f *front) counts(t *testing.T) upstreamCounts {
	t.Helper()
	all, err := f.direct.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := func(labels ...string) float64 { return sumOfLines(all, append(labels, "apiserver_request_total{")...) }
	return upstreamCounts{sum(`resource="tokenreviews"`), sum(`resource="subjectaccessreviews"`), sum(`resource="services"`, `verb="GET"`)}
}

const (
	// floodTime is the duration of the attacks in TestReplicaEndsBounded that use up what a
	// client may have the upstream asked, only after some time.
	floodTime = 3 * time.Second
	// enoughAtReplica is the part of the agents' reads that a replica must answer by itself.
	enoughAtReplica = 0.95
)

// tokenReviews is how many tokens of an attacker the upstream may be asked about. The first
// attack sends some three thousand, the second a few again and again.
var tokenReviews = map[string]int{"random tokens": 150, "bad tokens among good ones": 20}

// TestReplicaEndsBounded runs each attack on a replica for a moment. Honest clients must be
// served, those that only read by the replica.
func TestReplicaEndsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	f := startFront(t)
	idle := f.replica.usage(t)
	for _, k := range replicaAttacks() {
		duration := smokeTime
		if strings.HasPrefix(k.name, "random") {
			duration = floodTime
		}
		r := f.run(t, &attack{name: k.name, conns: 4, credentials: k.token != ""}, duration)
		t.Logf("%s: %+v, %+v, %+v, at the replica %.3f, peak %d MB, reviews of %d tokens and %d rights", k.name, r.Attacker, r.Honest, r.Agents, r.AtReplica, r.Peak>>20, r.Tokens, r.Rights)
		if r.Honest.Gets == 0 || r.Honest.Failed > 0 {
			t.Errorf("%s: of %d requests of an honest client %d failed: %v", k.name, r.Honest.Gets, r.Honest.Failed, r.Honest.Err)
		}
		if r.Agents.Failed > 0 || r.AtReplica < enoughAtReplica {
			t.Errorf("%s: of %d reads of agents %d failed, and the replica answered %.3f: %v", k.name, r.Agents.Reads, r.Agents.Failed, r.AtReplica, r.Agents.Err)
		}
		if most, bounded := tokenReviews[k.name]; bounded && r.Tokens > r.Agents.Reads+most {
			t.Errorf("%s: the upstream was asked about %d tokens", k.name, r.Tokens)
		}
		if grown := f.replica.usage(t).rss - idle.rss; grown > smokeBound {
			t.Fatalf("%s: the idle replica uses %d MB more than before the attacks", k.name, grown>>20)
		}
	}
}

// TestReplicaAttacks measures what attacks on a replica cost its upstream and other users, and
// what they would cost the upstream without the replica.
func TestReplicaAttacks(t *testing.T) {
	text := os.Getenv(replicaDurationVariable)
	if text == "" {
		t.Skipf("takes half an hour: %s=10s or make attacks-replica runs it", replicaDurationVariable)
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	f := startFront(t)
	table := &frontTable{duration: duration}
	for _, a := range tableRows(t, append(attacks(), replicaAttacks()...), 50) {
		l := f.compare(t, a, duration)
		for turn := 1; turn < maxAttempts && len(l.faults()) > 0; turn++ {
			if again := f.compare(t, a, duration); len(again.faults()) < len(l.faults()) {
				l = again
			}
		}
		t.Log(l)
		if faults := l.faults(); len(faults) > 0 {
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

// compare attacks the replica, and then its upstream.
func (f *front) compare(t *testing.T, a *attack, duration time.Duration) *frontLine {
	t.Helper()
	<-time.After(settleTime)
	l := &frontLine{attack: *a, front: f.run(t, a, duration)}
	<-time.After(settleTime)
	l.direct = runAttack(t, f.direct, a, duration)
	return l
}
