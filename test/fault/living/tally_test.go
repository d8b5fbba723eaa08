package living

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally counts what the clients of one front have asked, and keeps findings.
type tally struct {
	front string
	mu    struct {
		sync.Mutex
		tallyCounts
		statuses map[string]int
		findings map[string]*finding
	}
}

type tallyCounts struct {
	requests, watches, events, objects, rights int
	// here counts answers of the replica itself, and passed those of its upstream.
	here, passed int
	// unknown counts objects that could not be compared.
	unknown int
	// lag is the longest time for which an ended definition was answered by.
	lag time.Duration
}

// These findings are alike for all kinds of requests.
const (
	processEnded = "process has ended"
	unanswered   = "request without an answer"
	undecided    = "neither 200 nor 403"
)

type finding struct {
	number int
	first  string
}

func newTally(front string) *tally {
	t := &tally{front: front}
	t.mu.statuses, t.mu.findings = map[string]int{}, map[string]*finding{}
	return t
}

// find notes a finding.
func (t *tally) find(what, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.mu.findings[what]
	if f == nil {
		f = &finding{first: time.Now().Format("04:05.000 ") + fmt.Sprintf(format, args...)}
		t.mu.findings[what] = f
	}
	f.number++
}

// status counts an answer that is an error, by its words.
func (t *tally) status(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.statuses[what]++
}

func (t *tally) add(how func(*tallyCounts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	how(&t.mu.tallyCounts)
}

// findings lists what was found. What follows from the end of a process is left out.
func (t *tally) findings() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.findings[processEnded] != nil {
		delete(t.mu.findings, unanswered)
		delete(t.mu.findings, undecided)
	}
	var all []string
	for _, what := range slices.Sorted(maps.Keys(t.mu.findings)) {
		f := t.mu.findings[what]
		all = append(all, fmt.Sprintf("%s: %s: %d times, first: %.3000s", t.front, what, f.number, f.first))
	}
	return all
}

// errors lists errors with their numbers.
func (t *tally) errors() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(t.mu.statuses)) {
		all = append(all, fmt.Sprintf("  %6d %s", t.mu.statuses[what], what))
	}
	return strings.Join(all, "\n")
}

// String is a line about all.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%s: %d requests, %d watches with %d events, %d objects compared and %d unknown, %d answered here and %d passed on, old definition for %v",
		t.front, t.mu.requests, t.mu.watches, t.mu.events, t.mu.objects, t.mu.unknown, t.mu.here, t.mu.passed, t.mu.lag.Round(time.Millisecond))
}
