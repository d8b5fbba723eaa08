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

// counter counts the requests of one shape. All instances of an agent share it. It is safe
// for concurrent use.
type counter struct {
	agent, verb, request string
	observe              func(kind string) // receives the kind of each error; may be nil

	requests, failures, events, bytes, relists atomic.Int64
	// open is the number of watches that are open now.
	open    atomic.Int64
	latency histogram

	mu struct {
		sync.Mutex
		errors ErrorCounts // at most maxErrors kinds
	}
}

// variableParts matches what differs between errors of one kind: quoted names, and long
// numbers.
var variableParts = regexp.MustCompile(`"[^"]*"|\d[\d.:]+\d`)

// errorKind returns the text of an error with an ellipsis in place of variable parts. A status
// code at the start stays.
func errorKind(text string) string {
	status, rest, _ := strings.Cut(text, " ")
	if _, err := strconv.Atoi(status); err == nil && len(status) == 3 {
		return status + " " + variableParts.ReplaceAllString(rest, "…")
	}
	return variableParts.ReplaceAllString(text, "…")
}

// maxErrors bounds the kinds of errors that a counter keeps apart.
const maxErrors = 8

// recordSuccess counts a request that has succeeded, and its latency.
func (c *counter) recordSuccess(latency time.Duration) {
	c.requests.Add(1)
	c.latency.add(latency)
}

// recordFailure counts a request that has failed. text is its error.
func (c *counter) recordFailure(text string) {
	c.requests.Add(1)
	c.failures.Add(1)
	c.noteError(text)
}

// noteError counts an error by its kind, and reports it to the observer.
func (c *counter) noteError(text string) {
	kind := display.Clean(errorKind(text))
	if c.observe != nil {
		c.observe(kind)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.errors.Add(kind, maxErrors)
}

// row returns the counts so far.
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
	observeError func(kind string) // receives the kind of each error; may be nil
	mu           struct {
		sync.Mutex
		all []*counter
	}
}

// get returns the counter of a shape. It makes the counter at the first call.
func (s *counters) get(agent, verb, request string) *counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.mu.all {
		if c.agent == agent && c.verb == verb && c.request == request {
			return c
		}
	}
	c := &counter{agent: agent, verb: verb, request: request, observe: s.observeError}
	s.mu.all = append(s.mu.all, c)
	return c
}

// each visits all counters in the order in which they were made. visit must not call get.
func (s *counters) each(visit func(*counter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.mu.all {
		visit(c)
	}
}

// histogram counts times in buckets that are a quarter of a power of two wide, from a
// microsecond on. It is safe for concurrent use.
type histogram struct {
	buckets [bucketCount]atomic.Int64
}

const bucketCount = 4 * 40

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketIndex(uint64(max(0, d.Microseconds())))].Add(1)
}

// bucketIndex returns the bucket of a time in microseconds.
func bucketIndex(us uint64) int {
	if us < 4 {
		return int(us)
	}
	exponent := bits.Len64(us) - 1
	return min(4*(exponent-1)+int(us>>(exponent-2)&3), bucketCount-1)
}

// bucketEnd returns the end of a bucket, in seconds.
func bucketEnd(i int) float64 {
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
	wanted := max(1, int64(q*float64(total)+0.5))
	seen := int64(0)
	for i := range h.buckets {
		if seen += h.buckets[i].Load(); seen >= wanted {
			return bucketEnd(i)
		}
	}
	return bucketEnd(len(h.buckets) - 1)
}
