package pull

import (
	"fmt"
	"runtime"
)

// Panic is the error of a source or a task that panicked.
type Panic struct {
	Value any
	// Trace is of the goroutine that panicked, 64 KiB at most.
	Trace []byte
}

// NewPanic makes one of what recover returned. The deferred function that recovers must
// call it: the trace is of that time.
func NewPanic(value any) *Panic {
	trace := make([]byte, 64<<10)
	return &Panic{value, trace[:runtime.Stack(trace, false)]}
}

func (p *Panic) Error() string { return fmt.Sprintf("panicked: %v\n%s", p.Value, p.Trace) }

// Ask asks a source. A panic of it is an error, a *Panic: it must not end what serves
// others.
func Ask(source Source, segments [][]byte, room int) (_ [][]byte, more bool, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = NewPanic(e)
		}
	}()
	return source.Next(segments, room)
}
