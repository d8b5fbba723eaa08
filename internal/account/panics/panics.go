// Package panics recovers from panics of foreign code. Counter.Guard calls such code, makes
// an Error of a panic, counts it by Place, and logs its stack.
//
// It is not for our own code: a panic there must end the connection or the process
// (docs/flow.md).
package panics

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// Place says where foreign code panicked.
type Place string

const (
	// Decode is decrypting or decoding a stored object, or reading its attributes.
	Decode Place = "decode"
	// Encode is encoding an object, or making its row of a table.
	Encode Place = "encode"
	// Convert is converting objects by a webhook.
	Convert Place = "convert"
	// OpenAPI is making OpenAPI of a definition.
	OpenAPI Place = "openapi"
	// Watch is following events for a watch that Kubernetes' handlers serve.
	Watch Place = "watch"
	// Informer is a handler of an informer's events.
	Informer Place = "informer"
	// Definition is reading a definition, bringing its status up to date, or warming up for
	// that.
	Definition Place = "definition"
	// Request is Kubernetes' handler of a request, or a question of a replica to its upstream
	// about users.
	Request Place = "request"
	// Controller is a goroutine of Kubernetes outside of requests.
	Controller Place = "controller"
)

// Places returns all places.
func Places() []Place {
	return []Place{Decode, Encode, Convert, OpenAPI, Watch, Informer, Definition, Request, Controller}
}

// Error is the error that stands for a panic. Its text has no stack, because clients are
// sent it.
type Error struct {
	Place Place
	Value any
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Counter counts panics of foreign code, and logs their stacks. Such code is Kubernetes'
// decoders, converters, encoders and controllers, and what they call. It was written for
// objects that the API has validated, but etcd may hold anything.
//
// The guards are few: at the decoder, at the encoder, at the request, and at each goroutine
// that would end the process. docs/flow.md says for each goroutine which guard it has. A panic
// of our own feed is not guarded: a cache that may be wrong must not be served.
//
// A nil Counter guards, and neither counts nor logs. It is safe for concurrent use.
type Counter struct {
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		counts map[Place]int64
		// loggedAt is when the stack of a place was last logged, here or by Kubernetes (Count).
		loggedAt map[Place]time.Time
		// suppressed counts the panics since loggedAt that were not logged.
		suppressed map[Place]int64
		last       LastPanic
	}
}

// LastPanic describes the newest panic.
type LastPanic struct {
	Time  time.Time
	Place Place
	Text  string
}

// panicLogPeriod is the least time between two stacks of one place. A client that tries again
// meets the same panic with each request.
const panicLogPeriod = 10 * time.Second

// maxPanicText bounds the text of a panic in a report.
const maxPanicText = 300

// New returns a Counter that logs to a logger.
func New(logger *slog.Logger) *Counter {
	c := &Counter{logger: logger}
	c.mu.counts, c.mu.loggedAt, c.mu.suppressed = map[Place]int64{}, map[Place]time.Time{}, map[Place]int64{}
	return c
}

// Guard calls foreign code and returns its error, or an *Error if it panics.
func (c *Counter) Guard(place Place, do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = c.Recovered(place, value)
		}
	}()
	return do()
}

// Recovered counts a panic, and logs it with the stack of the caller, which must be the
// deferred function that has recovered. It logs one stack of a place in panicLogPeriod. It
// returns the error that stands for the panic.
func (c *Counter) Recovered(place Place, value any) error {
	failure := &Error{Place: place, Value: value}
	if c == nil {
		return failure
	}
	suppressed, logs := c.countAndThrottle(place, value)
	if logs {
		stack := make([]byte, 64<<10)
		stack = stack[:runtime.Stack(stack, false)]
		c.logger.Error("Foreign code panicked; the operation failed, and the server goes on", "place", string(place), "panic", fmt.Sprint(value),
			"suppressed", suppressed, "stack", string(stack))
	}
	return failure
}

// Count counts a panic that Kubernetes' crash handlers log.
func (c *Counter) Count(place Place, value any) {
	if c != nil {
		c.countAndThrottle(place, value)
	}
}

// countAndThrottle counts a panic. It reports whether a stack of the place may be logged now.
// suppressed is how many panics of the place were not logged since the last stack.
func (c *Counter) countAndThrottle(place Place, value any) (suppressed int64, logs bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.counts[place]++
	text := fmt.Sprint(value)
	c.mu.last = LastPanic{Time: now, Place: place, Text: text[:min(len(text), maxPanicText)]}
	if now.Sub(c.mu.loggedAt[place]) < panicLogPeriod {
		c.mu.suppressed[place]++
		return 0, false
	}
	suppressed = c.mu.suppressed[place]
	c.mu.loggedAt[place], c.mu.suppressed[place] = now, 0
	return suppressed, true
}

// Counts returns the number of panics by place, and the newest one.
func (c *Counter) Counts() (counts map[Place]int64, last LastPanic) {
	counts = map[Place]int64{}
	if c == nil {
		return counts, LastPanic{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for place, n := range c.mu.counts {
		counts[place] = n
	}
	return counts, c.mu.last
}
