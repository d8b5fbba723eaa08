package attacks

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

const (
	// An attack may take memoryBound bytes, and memoryBoundPerConn more for each
	// connection.
	memoryBound, memoryBoundPerConn = 64 << 20, 2 << 20
	// Garbage may come on top: the server gives a small heap gcHeadroom between two
	// collections. An attack that takes more than the bound must therefore take at most
	// growthBound more, and growthBoundPerConn for each connection, when it lasts
	// longerAttack times as long.
	gcHeadroom                      = 128 << 20
	growthBound, growthBoundPerConn = 32 << 20, 1 << 20
	longerAttack                    = 4
	// Smaller differences from Go's server are noise: cpuNoise as a part of the duration,
	// and latencyNoise.
	cpuNoise, latencyNoise = 0.1, 20 * time.Millisecond
	// Up to noiseRatio times as much as Go's is noise as well.
	noiseRatio = 1.5
	// gapBound is how long the honest client's watch may be silent, unless Go's is silent
	// longer.
	gapBound = 3 * time.Second
)

// report is the results of a comparison.
type report struct {
	Duration time.Duration
	lines    []*tableLine
}

// tableLine is an attack with the result of each server, ours first.
type tableLine struct {
	attack
	results []*result
}

func (l *tableLine) String() string { return l.title() + ": " + strings.Join(l.cells(), " | ") }

// cells are the measured values, "ours / Go's" in each.
func (l *tableLine) cells() (cells []string) {
	cell := func(format func(*result) string) {
		ours, theirs := format(l.results[0]), format(l.results[1])
		cells = append(cells, ours+" / "+theirs)
	}
	cell(func(r *result) string { return fmt.Sprintf("%.0f", float64(r.Peak)/(1<<20)) })
	cell(func(r *result) string { return fmt.Sprintf("%.0f", float64(r.Left)/(1<<20)) })
	cell(func(r *result) string { return fmt.Sprintf("%.2f", r.CPU.Seconds()) })
	cell(func(r *result) string { return fmt.Sprintf("%.1f", float64(r.Attacker.Bytes)/(1<<20)) })
	cell(func(r *result) string { return fmt.Sprint(r.Attacker.Requests) })
	cell(func(r *result) string { return fmt.Sprint(r.Attacker.Conns) })
	cell(func(r *result) string { return millis(r.Honest.P50) })
	cell(func(r *result) string { return millis(r.Honest.P99) })
	cell(func(r *result) string { return millis(r.Honest.Event99) })
	cell(func(r *result) string { return millis(r.Honest.Gap) })
	cell(func(r *result) string { return fmt.Sprint(r.Honest.Failed) })
	return cells
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
}

// memoryLimit is the memory that the attack may take, in bytes, without garbage.
func (a *attack) memoryLimit() int64 { return int64(memoryBound + a.conns*memoryBoundPerConn) }

// faults are the values that exceed a bound or are worse than Go's.
func (l *tableLine) faults(duration time.Duration) (all []string) {
	ours, theirs := l.results[0], l.results[1]
	fault := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	// A server that lets an attacker send more has more to do.
	more := max(1, multipleOf(ours.Attacker.Bytes, theirs.Attacker.Bytes), multipleOf(ours.Attacker.Requests, theirs.Attacker.Requests))
	limit := l.memoryLimit() + gcHeadroom
	fault(ours.Peak > limit, "memory is above %d MB", limit>>20)
	fault(ours.Growth > int64(growthBound+l.conns*growthBoundPerConn), "memory grows by %d MB in %d times the time", ours.Growth>>20, longerAttack)
	fault(ours.CPU.Seconds() > noiseRatio*more*theirs.CPU.Seconds()+cpuNoise*duration.Seconds(), "CPU")
	fault(ours.Honest.P99 > latencyBound(theirs.Honest.P99), "latency of GETs")
	fault(ours.Honest.Event99 > latencyBound(theirs.Honest.Event99), "latency of events")
	fault(ours.Honest.Gap > max(gapBound, theirs.Honest.Gap), "the watch stands still")
	fault(ours.Honest.Failed > theirs.Honest.Failed, "requests fail: %v", ours.Honest.Err)
	return all
}

// multipleOf is how many times as much ours is as theirs.
func multipleOf(ours, theirs int64) float64 { return float64(ours) / float64(max(1, theirs)) }

// latencyBound is the largest latency that is not worse than another by more than noise.
func latencyBound(than time.Duration) time.Duration {
	return time.Duration(noiseRatio*float64(than)) + latencyNoise
}

// String is the table and the lines that are not right.
func (r *report) String() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "Written by `make attacks`.\n\n%v each, millrace / Go. %s, %d processors, %s. Memory in MB, CPU in s, latency in ms.\n\n",
		r.Duration, runtime.Version(), runtime.NumCPU(), processorName())
	fmt.Fprintln(b, "| attack | connections | credentials | peak above rest | left | CPU | MB sent | requests | connections made | GET p50 | GET p99 | event p99 | longest silence | failed |")
	fmt.Fprintln(b, "| --- | --: | --- | "+strings.Repeat("--: | ", 11))
	for _, l := range r.lines {
		credentials := "no"
		if l.credentials {
			credentials = "yes"
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s |\n", l.name, l.conns, credentials, strings.Join(l.cells(), " | "))
	}
	failing := 0
	var list strings.Builder
	for _, l := range r.lines {
		if faults := l.faults(r.Duration); len(faults) > 0 {
			failing++
			fmt.Fprintf(&list, "* %s: %s\n", l.title(), strings.Join(faults, ", "))
		}
	}
	for _, l := range r.lines {
		if ours := l.results[0]; ours.Peak > l.memoryLimit() {
			fmt.Fprintf(b, "\n%s: above %d MB, so the attack went on for %v; the highest memory use grew by %d MB.\n",
				l.title(), l.memoryLimit()>>20, longerAttack*r.Duration, ours.Growth>>20)
		}
	}
	fmt.Fprintf(b, "\n%d of %d lines are bounded and no worse than Go's.\n\n%s", len(r.lines)-failing, len(r.lines), list.String())
	return b.String()
}

// processorName is the model name of the processor.
func processorName() string {
	b, _ := os.ReadFile("/proc/cpuinfo") // a name is only nice to have
	for l := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
