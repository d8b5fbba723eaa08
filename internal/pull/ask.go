package pull

import (
	"fmt"
	"runtime"
)

// Panic is the error of a source that panicked.
type Panic struct {
	Value any
	// Trace is of the goroutine that asked, 64 KiB at most.
	Trace []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("source panicked: %v\n%s", p.Value, p.Trace) }

// Ask asks a source. A panic of it is an error, a *Panic: it must not end what serves
// others.
func Ask(source Source, segments [][]byte, room int) (_ [][]byte, more bool, err error) {
	defer func() {
		if e := recover(); e != nil {
			trace := make([]byte, 64<<10)
			err = &Panic{e, trace[:runtime.Stack(trace, false)]}
		}
	}()
	return source.Next(segments, room)
}
