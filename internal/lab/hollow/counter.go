package hollow

import (
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
)

// counter counts the requests of one shape: all instances of an agent share it. It is safe
// for concurrent use.
type counter struct {
	agent, verb, request string
	observe              func(what string) // gets each error; may be nil

	requests, failures, events, bytes, relists atomic.Int64
	// open is how many watches are open now.
	open    atomic.Int64
	latency histogram

	mu struct {
		sync.Mutex
		errors ErrorCounts // by what happened, bounded by maxErrors
	}
}

// variableParts matches what differs between errors of one kind: quoted names, and long
// numbers.
var variableParts = regexp.MustCompile(`"[^"]*"|\d[\d.:]+\d`)

// errorKind returns an error without what differs from others of its kind. A status at the
// beginning stays.
func errorKind(what string) string {
	status, rest, _ := strings.Cut(what, " ")
	if _, err := strconv.Atoi(status); err == nil && len(status) == 3 {
		return status + " " + variableParts.ReplaceAllString(rest, "…")
	}
	return variableParts.ReplaceAllString(what, "…")
}

// maxErrors bounds the different errors of a counter.
const maxErrors = 8

// done counts a request that has ended well after a time.
func (c *counter) done(took time.Duration) {
	c.requests.Add(1)
	c.latency.add(took)
}

// failed counts a request that has ended badly.
func (c *counter) failed(what string) {
	c.requests.Add(1)
	c.failures.Add(1)
	c.noteError(what)
}

// noteError counts what has gone wrong.
func (c *counter) noteError(what string) {
	what = display.Clean(errorKind(what))
	if c.observe != nil {
		c.observe(what)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.errors.Add(what, maxErrors)
}

// row is what the counter has counted so far.
func (c *counter) row() Row {
	r := Row{
		Agent: c.agent, Verb: c.verb, Request: c.request,
		Requests: c.requests.Load(), Errors: c.failures.Load(), Events: c.events.Load(), Bytes: c.bytes.Load(),
		Relists: c.relists.Load(), Open: c.open.Load(),
		P50Seconds: c.latency.quantile(0.5), P99Seconds: c.latency.quantile(0.99), MaxSeconds: c.latency.quantile(1),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.ErrorKinds = c.mu.errors.Kinds()
	return r
}

// counters has all counters of a run.
type counters struct {
	failed func(what string) // gets each error; may be nil
	mu     struct {
		sync.Mutex
		all []*counter
	}
}

// get returns the counter of a shape, which it makes if it is new.
func (s *counters) get(agent, verb, request string) *counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.mu.all {
		if c.agent == agent && c.verb == verb && c.request == request {
			return c
		}
	}
	c := &counter{agent: agent, verb: verb, request: request, observe: s.failed}
	s.mu.all = append(s.mu.all, c)
	return c
}

// each visits all counters in the order in which they were made.
func (s *counters) each(visit func(*counter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.mu.all {
		visit(c)
	}
}

// histogram counts times in buckets that are a quarter of a power of two wide, from a
// microsecond on.
type histogram struct {
	buckets [4 * 40]atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucket(uint64(max(0, d.Microseconds())))].Add(1)
}

func bucket(us uint64) int {
	if us < 4 {
		return int(us)
	}
	exponent := bits.Len64(us) - 1
	return min(4*(exponent-1)+int(us>>(exponent-2)&3), 4*40-1)
}

// upper is the end of a bucket, in seconds.
func upper(i int) float64 {
	if i < 4 {
		return float64(i+1) / 1e6
	}
	exponent, quarter := i/4+1, i%4
	return float64(uint64(4+quarter+1)<<(exponent-2)) / 1e6
}

// quantile returns the end of the bucket in which a quantile lies, in seconds.
func (h *histogram) quantile(q float64) float64 {
	total := int64(0)
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	if total == 0 {
		return 0
	}
	wanted, seen := max(1, int64(q*float64(total)+0.5)), int64(0)
	for i := range h.buckets {
		if seen += h.buckets[i].Load(); seen >= wanted {
			return upper(i)
		}
	}
	return upper(len(h.buckets) - 1)
}
