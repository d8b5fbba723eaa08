package attacks

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// frontLine is an attack on a replica, and the same on the server behind it.
type frontLine struct {
	attack
	front  *frontResult
	direct *result
}

func (l *frontLine) String() string { return l.title() + ": " + strings.Join(l.cells(), " | ") }

// cells are the measured values.
func (l *frontLine) cells() []string {
	r := l.front
	return []string{
		fmt.Sprintf("%d / %d", r.Attacker.Requests, l.direct.Attacker.Requests),
		fmt.Sprintf("%.2f", r.CPU.Seconds()),
		fmt.Sprintf("%.2f / %.2f", r.UpstreamCPU.Seconds(), l.direct.CPU.Seconds()),
		fmt.Sprint(r.Tokens), fmt.Sprint(r.Rights),
		fmt.Sprintf("%.0f", float64(r.Peak)/(1<<20)),
		fmt.Sprintf("%.1f", 100*r.AtReplica),
		millis(r.Honest.P50), millis(r.Honest.P99), millis(r.Honest.Event99),
		fmt.Sprintf("%d / %d", r.Honest.Failed+r.Agents.Failed, l.direct.Honest.Failed),
	}
}

// faults are what honest clients notice of the attack, and memory beyond its bound. Latencies
// are measured, and no fault: most attacks are passed on, so that two servers share the
// machine's processors with the attacker.
func (l *frontLine) faults() (all []string) {
	r := l.front
	if limit := l.memoryLimit() + gcHeadroom; r.Peak > limit {
		all = append(all, fmt.Sprintf("memory is above %d MB", limit>>20))
	}
	if r.AtReplica < enoughAtReplica {
		all = append(all, fmt.Sprintf("the replica answered %.1f %% of the agents' reads", 100*r.AtReplica))
	}
	if n := r.Honest.Failed + r.Agents.Failed; n > l.direct.Honest.Failed {
		all = append(all, fmt.Sprintf("%d requests fail: %v, %v", n, r.Honest.Err, r.Agents.Err))
	}
	return all
}

// frontTable is the lines of a run.
type frontTable struct {
	duration time.Duration
	lines    []*frontLine
}

// String is the table and the lines that are not right.
func (t *frontTable) String() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "Written by `make attacks-replica`.\n\n%v each, at the replica / at the server behind it without the replica. %s, %d processors, %s. CPU in s, memory in MB, latency in ms.\n\n",
		t.duration, runtime.Version(), runtime.NumCPU(), processorName())
	fmt.Fprintln(b, "| attack | connections | credentials | requests | replica's CPU | upstream's CPU | token reviews | access reviews | peak above rest | agents' reads at the replica, % | GET p50 | GET p99 | event p99 | failed |")
	fmt.Fprintln(b, "| --- | --: | --- | "+strings.Repeat("--: | ", 11))
	var faults strings.Builder
	failing := 0
	for _, l := range t.lines {
		credentials := "no"
		if l.credentials {
			credentials = "yes"
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s |\n", l.name, l.conns, credentials, strings.Join(l.cells(), " | "))
		if all := l.faults(); len(all) > 0 {
			failing++
			fmt.Fprintf(&faults, "* %s: %s\n", l.title(), strings.Join(all, ", "))
		}
	}
	fmt.Fprintf(b, "\n%d of %d lines are right.\n\n%s", len(t.lines)-failing, len(t.lines), faults.String())
	return b.String()
}
