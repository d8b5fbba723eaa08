package resource

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// PanicPlace says what was being done when foreign code panicked.
type PanicPlace string

const (
	// PanicDecode is decrypting, decoding or describing a stored object.
	PanicDecode PanicPlace = "decode"
	// PanicEncode is encoding an object, or making its row of a table.
	PanicEncode PanicPlace = "encode"
	// PanicConvert is converting objects by a webhook.
	PanicConvert PanicPlace = "convert"
	// PanicOpenAPI is making OpenAPI of a definition.
	PanicOpenAPI PanicPlace = "openapi"
	// PanicWatch is following events for a watch that Kubernetes' handlers serve.
	PanicWatch PanicPlace = "watch"
	// PanicInformer is a handler of an informer's events.
	PanicInformer PanicPlace = "informer"
	// PanicDefinition is reading a definition, or bringing its status up to date.
	PanicDefinition PanicPlace = "definition"
	// PanicRequest is Kubernetes' handler of a request.
	PanicRequest PanicPlace = "request"
	// PanicController is a goroutine of Kubernetes beside requests.
	PanicController PanicPlace = "controller"
)

// PanicPlaces are all places.
func PanicPlaces() []PanicPlace {
	return []PanicPlace{PanicDecode, PanicEncode, PanicConvert, PanicOpenAPI, PanicWatch, PanicInformer, PanicDefinition, PanicRequest, PanicController}
}

// PanicError is the error that stands for a panic. Its text has no stack, because clients are
// sent it.
type PanicError struct {
	Place PanicPlace
	Value any
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Panics counts panics of foreign code, and logs their stacks. Such code is Kubernetes'
// decoders, converters, encoders and controllers, and what they call. It was written for
// objects that the API has validated, but etcd may hold anything.
//
// The guards are few: at the decoder, at the encoder, at the request, and at each goroutine
// that would end the process. docs/flow.md says for each goroutine which guard it has. A panic
// of our own feed is not guarded: a cache that may be wrong must not be served.
//
// A nil Panics guards, and neither counts nor logs. It is safe for concurrent use.
type Panics struct {
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		counts map[PanicPlace]int64
		// loggedAt is when a place last logged a stack, suppressed counts those since then
		// without a line.
		loggedAt   map[PanicPlace]time.Time
		suppressed map[PanicPlace]int64
		last       PanicRecord
	}
}

// PanicRecord describes the newest panic.
type PanicRecord struct {
	Time  time.Time
	Place PanicPlace
	Text  string
}

// panicLogPeriod is the least time between two stacks of one place. A client that tries again
// meets the same panic with each request.
const panicLogPeriod = 10 * time.Second

// maxPanicText bounds the text of a panic in a report.
const maxPanicText = 300

// NewPanics returns a Panics that logs to a logger.
func NewPanics(logger *slog.Logger) *Panics {
	p := &Panics{logger: logger}
	p.mu.counts, p.mu.loggedAt, p.mu.suppressed = map[PanicPlace]int64{}, map[PanicPlace]time.Time{}, map[PanicPlace]int64{}
	return p
}

// Guard calls foreign code and returns its error, or a PanicError if it panics.
func (p *Panics) Guard(place PanicPlace, do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = p.Record(place, value)
		}
	}()
	return do()
}

// Record counts a panic, and logs it with the stack of the caller, which must be the deferred
// function that has recovered. It returns the error that stands for the panic.
func (p *Panics) Record(place PanicPlace, value any) error {
	failure := &PanicError{Place: place, Value: value}
	if p == nil {
		return failure
	}
	suppressed, ok := p.count(place, value)
	if ok {
		stack := make([]byte, 64<<10)
		stack = stack[:runtime.Stack(stack, false)]
		p.logger.Error("Foreign code panicked; the server goes on without what it was doing", "place", string(place), "panic", fmt.Sprint(value),
			"suppressed", suppressed, "stack", string(stack))
	}
	return failure
}

// Count counts a panic that others log.
func (p *Panics) Count(place PanicPlace, value any) {
	if p != nil {
		p.count(place, value)
	}
}

// count reports whether the place may log a stack now, and how many it did not log before.
func (p *Panics) count(place PanicPlace, value any) (suppressed int64, logs bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.counts[place]++
	text := fmt.Sprint(value)
	p.mu.last = PanicRecord{Time: now, Place: place, Text: text[:min(len(text), maxPanicText)]}
	if now.Sub(p.mu.loggedAt[place]) < panicLogPeriod {
		p.mu.suppressed[place]++
		return 0, false
	}
	suppressed = p.mu.suppressed[place]
	p.mu.loggedAt[place], p.mu.suppressed[place] = now, 0
	return suppressed, true
}

// Counts returns the number of panics by place, and the newest one.
func (p *Panics) Counts() (counts map[PanicPlace]int64, last PanicRecord) {
	counts = map[PanicPlace]int64{}
	if p == nil {
		return counts, PanicRecord{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for place, n := range p.mu.counts {
		counts[place] = n
	}
	return counts, p.mu.last
}
