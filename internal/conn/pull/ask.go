package pull

import (
	"fmt"
	"runtime"
)

// Panic is the error that stands for a panic of a Source or a Task.
type Panic struct {
	Value any
	// Trace is the stack of the goroutine that panicked, 64 KiB at most.
	Trace []byte
}

// NewPanic makes a Panic of a value that recover returned. It must be called in the
// deferred function that recovers: the trace is taken there.
func NewPanic(value any) *Panic {
	trace := make([]byte, 64<<10)
	return &Panic{value, trace[:runtime.Stack(trace, false)]}
}

func (p *Panic) Error() string { return fmt.Sprintf("panicked: %v\n%s", p.Value, p.Trace) }

// Ask calls source.Next. If it panics, Ask returns a *Panic as the error: one source must
// not end the worker that serves other connections.
func Ask(source Source, chunks [][]byte, room int) (_ [][]byte, more bool, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = NewPanic(e)
		}
	}()
	return source.Next(chunks, room)
}
