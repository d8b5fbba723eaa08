package share

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
)

// holds are the bytes of all answers that are held.
type holds struct{ bytes atomic.Int64 }

// maxHeld bounds the bytes of answers that are held for several readers.
const maxHeld = 64 << 20

// answer is the answer to one question, for several readers. It is the http.ResponseWriter
// of the reader that asks.
type answer struct {
	held   *holds
	header http.Header
	// unread ends when the last reader has left.
	unread context.Context
	leave  context.CancelFunc
	mu     struct {
		sync.Mutex
		// status is 0 before the head has come.
		status int
		// head are the headers as they were when the head came.
		head http.Header
		body [][]byte
		// ended says that nothing more comes.
		ended bool
		// panic is the value with which asking has panicked. It is nil without a panic.
		panic   any
		readers int
		// moved is closed when something has changed, and then replaced.
		moved chan struct{}
	}
}

func newAnswer(held *holds, readers int) *answer {
	a := &answer{held: held, header: http.Header{}}
	a.unread, a.leave = context.WithCancel(context.Background())
	a.mu.readers, a.mu.moved = readers, make(chan struct{})
	return a
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.status == 0 {
		a.mu.status, a.mu.head = status, maps.Clone(a.header)
		a.moveLocked()
	}
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.readers == 0 {
		panic(http.ErrAbortHandler)
	}
	if size := int64(len(p)); a.held.bytes.Add(size) > maxHeld {
		a.held.bytes.Add(-size)
		panic(http.ErrAbortHandler)
	}
	a.mu.body = append(a.mu.body, append([]byte(nil), p...))
	a.moveLocked()
	return len(p), nil
}

// Flush implements http.Flusher. Readers are sent each Write.
func (a *answer) Flush() {}

// end records that nothing more comes.
func (a *answer) end(panicked any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.ended, a.mu.panic = true, panicked
	a.moveLocked()
}

// panicked returns what asking has panicked with. It returns nil without a panic.
func (a *answer) panicked() any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.panic
}

func (a *answer) moveLocked() {
	close(a.mu.moved)
	a.mu.moved = make(chan struct{})
}

// outcome is what has become of an answer for one reader.
type outcome int

const (
	// sent: the reader has it, or is gone.
	sent outcome = iota
	// unfit: the reader was sent nothing, and has to ask for itself.
	unfit
	// cut: the reader was sent a part.
	cut
)

// send sends the answer to a reader as it comes. asks says that the answer is to the reader's own
// question. Then the reader takes what others may not share.
func (a *answer) send(ctx context.Context, w http.ResponseWriter, asks bool) outcome {
	defer a.left()
	flusher := http.NewResponseController(w)
	for begun, part := false, 0; ; {
		current := a.stateAt(part)
		switch {
		case current.fails && begun:
			return cut
		case current.fails, current.status != 0 && !asks && current.status != http.StatusOK && current.status != http.StatusNotFound:
			return unfit
		case !begun && (current.bytes != nil || current.over):
			begun = true
			sendHead(w, current.head, current.status)
		case current.bytes != nil:
			if _, err := w.Write(current.bytes); err != nil {
				return sent
			}
			part++
		case current.over:
			return sent
		default:
			if begun {
				_ = flusher.Flush()
			}
			select {
			case <-current.moved:
			case <-ctx.Done():
				return sent
			}
		}
	}
}

// state is what a reader may know of an answer.
type state struct {
	status int
	head   http.Header
	// bytes is the part. It is nil until the part has come.
	bytes []byte
	// over says that the part before was the last.
	over bool
	// fails says that the answer is not whole.
	fails bool
	moved <-chan struct{}
}

// stateAt returns what a reader may know that has read the parts before.
func (a *answer) stateAt(part int) state {
	a.mu.Lock()
	defer a.mu.Unlock()
	current := state{status: a.mu.status, head: a.mu.head, over: a.mu.ended, fails: a.mu.panic != nil, moved: a.mu.moved}
	if part < len(a.mu.body) {
		current.bytes = a.mu.body[part]
	}
	return current
}

// left records that a reader needs no more. When the last reader has left, the body is
// dropped.
func (a *answer) left() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.readers--; a.mu.readers > 0 {
		return
	}
	a.leave()
	a.dropLocked()
}

// dropLocked lets go of the body.
func (a *answer) dropLocked() {
	for _, p := range a.mu.body {
		a.held.bytes.Add(-int64(len(p)))
	}
	a.mu.body = nil
}

// ofReader are the headers of an answer that are the reader's own: filters have set them.
var ofReader = []string{"Audit-Id", "Connection"}

// sendHead sends the head of an answer to another request.
func sendHead(w http.ResponseWriter, head http.Header, status int) {
	header := w.Header()
	own := http.Header{}
	for _, name := range ofReader {
		if values, ok := header[name]; ok {
			own[name] = values
		}
	}
	clear(header)
	maps.Copy(header, head)
	maps.Copy(header, own)
	w.WriteHeader(status)
}
