package attacks

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

const (
	// bound is how much memory an attack may take above rest, connBound what it may take
	// more for each connection.
	bound, connBound = 64 << 20, 2 << 20
	// What is worse than Go's by less is noise: CPU in parts of the time, and latency.
	cpuNoise, latencyNoise = 0.1, 20 * time.Millisecond
	// ratio is how much worse than Go's is noise as well.
	ratio = 1.5
	// gapBound is how long the honest client's watch may be silent, if Go's is not.
	gapBound = 3 * time.Second
)

// marker is what the table begins behind, in its document.
const marker = "<!-- What follows is written by `make attacks`. -->\n"

// report is what was measured.
type report struct {
	Duration time.Duration
	lines    []line
}

// line is an attack with what became of each server, of ours first.
type line struct {
	attack
	results []*result
}

func (l *line) String() string {
	who := "without credentials"
	if l.credentials {
		who = "with credentials"
	}
	return fmt.Sprintf("%s, %d, %s: %s", l.name, l.conns, who, strings.Join(l.cells(), " | "))
}

// cells are ours and Go's, by turns.
func (l *line) cells() (cells []string) {
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

// faults are what is not bounded, and what is worse than Go's.
func (r *report) faults() (all []string) {
	for _, l := range r.lines {
		ours, theirs := l.results[0], l.results[1]
		fault := func(what string) { all = append(all, what+": "+l.String()) }
		if most := int64(bound + l.conns*connBound); ours.Peak > most && float64(ours.Peak) > ratio*float64(theirs.Peak) {
			fault(fmt.Sprintf("memory is above %d MB", most>>20))
		}
		if ours.CPU.Seconds() > ratio*theirs.CPU.Seconds()+cpuNoise*r.Duration.Seconds() {
			fault("CPU")
		}
		if ours.Honest.P99 > time.Duration(ratio*float64(theirs.Honest.P99))+latencyNoise {
			fault("latency of GETs")
		}
		if ours.Honest.Event99 > time.Duration(ratio*float64(theirs.Honest.Event99))+latencyNoise {
			fault("latency of events")
		}
		if ours.Honest.Gap > max(gapBound, theirs.Honest.Gap) {
			fault("the watch stands still")
		}
		if ours.Honest.Failed > theirs.Honest.Failed {
			fault(fmt.Sprintf("requests fail: %v", ours.Honest.Err))
		}
	}
	return all
}

// write puts the table into a document, behind its marker.
func (r *report) write(path string) error {
	document, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	i := bytes.Index(document, []byte(marker))
	if i < 0 {
		return fmt.Errorf("%s has no line %q", path, marker)
	}
	b := bytes.NewBuffer(document[:i+len(marker)])
	fmt.Fprintf(b, "\n%v each, millrace / Go. %s, %d processors, %s. Memory in MB, CPU in s, latency in ms.\n\n",
		r.Duration, runtime.Version(), runtime.NumCPU(), machine())
	fmt.Fprintln(b, "| attack | connections | credentials | peak above rest | left | CPU | MB sent | requests | connections made | GET p50 | GET p99 | event p99 | longest silence | failed |")
	fmt.Fprintln(b, "| --- | --: | --- | "+strings.Repeat("--: | ", 11))
	for _, l := range r.lines {
		credentials := "no"
		if l.credentials {
			credentials = "yes"
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s |\n", l.name, l.conns, credentials, strings.Join(l.cells(), " | "))
	}
	faults := r.faults()
	fmt.Fprintf(b, "\n%d of %d lines are within the bounds and no worse than Go's.\n", len(r.lines)-len(failing(faults)), len(r.lines))
	for _, fault := range faults {
		fmt.Fprintf(b, "* %s\n", fault)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// failing are the lines that have a fault, by their text.
func failing(faults []string) map[string]bool {
	lines := map[string]bool{}
	for _, fault := range faults {
		_, text, _ := strings.Cut(fault, ": ")
		lines[text] = true
	}
	return lines
}

// machine is the processor's name.
func machine() string {
	b, _ := os.ReadFile("/proc/cpuinfo") // a name is only nice to have
	for l := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
