package share

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
)

// maxHeld bounds the bytes of all answers that are held.
const maxHeld = 64 << 20

// answer is the answer to one question, for several readers. It is the http.ResponseWriter of
// the goroutine that asks (Reads.askFor).
type answer struct {
	// heldBytes has the bytes of all answers that are held.
	heldBytes *atomic.Int64
	header    http.Header
	// unread ends when the last reader has left.
	unread context.Context
	leave  context.CancelFunc
	mu     struct {
		sync.Mutex
		// status is 0 before the head has come.
		status int
		// head are the headers as they were when the head came.
		head http.Header
		// body has the bytes of each Write.
		body [][]byte
		// ended says that nothing more comes.
		ended bool
		// panic is the value with which asking has panicked. It is nil without a panic.
		panic any
		// readers is how many readers have not left.
		readers int
		// changed is closed when something of mu has changed, and then replaced.
		changed chan struct{}
	}
}

func newAnswer(heldBytes *atomic.Int64, readers int) *answer {
	a := &answer{heldBytes: heldBytes, header: http.Header{}}
	a.unread, a.leave = context.WithCancel(context.Background())
	a.mu.readers, a.mu.changed = readers, make(chan struct{})
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
		a.notifyLocked()
	}
}

// Write implements io.Writer. It panics with http.ErrAbortHandler if nobody reads the answer any
// more, or it exceeds maxHeld.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.readers == 0 {
		panic(http.ErrAbortHandler)
	}
	if size := int64(len(p)); a.heldBytes.Add(size) > maxHeld {
		a.heldBytes.Add(-size)
		panic(http.ErrAbortHandler)
	}
	a.mu.body = append(a.mu.body, append([]byte(nil), p...))
	a.notifyLocked()
	return len(p), nil
}

// Flush implements http.Flusher. Readers are sent each Write.
func (a *answer) Flush() {}

// end records that nothing more comes, and what asking has panicked with, or nil.
func (a *answer) end(panicked any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.ended, a.mu.panic = true, panicked
	a.notifyLocked()
}

// panicked returns what asking has panicked with. It returns nil without a panic.
func (a *answer) panicked() any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.panic
}

// notifyLocked wakes the readers that wait for a change.
func (a *answer) notifyLocked() {
	close(a.mu.changed)
	a.mu.changed = make(chan struct{})
}

// outcome is what has become of an answer for one reader.
type outcome int

const (
	// sent: the reader has the answer, or is gone.
	sent outcome = iota
	// unfit: the reader was sent nothing, and has to ask for itself.
	unfit
	// cut: the reader was sent the beginning of an answer that was cut short.
	cut
)

// send sends the answer to a reader as it comes. asks says that the question was made of the
// reader's own request: then the reader takes any status.
func (a *answer) send(ctx context.Context, w http.ResponseWriter, asks bool) outcome {
	defer a.removeReader()
	flusher := http.NewResponseController(w)
	for begun, part := false, 0; ; {
		current := a.viewAt(part)
		switch {
		case current.fails && begun:
			return cut
		case current.fails, current.status != 0 && !asks && current.status != http.StatusOK && current.status != http.StatusNotFound:
			return unfit
		case !begun && (current.bytes != nil || current.ended):
			begun = true
			sendHead(w, current.head, current.status)
		case current.bytes != nil:
			if _, err := w.Write(current.bytes); err != nil {
				return sent
			}
			part++
		case current.ended:
			return sent
		default:
			if begun {
				_ = flusher.Flush()
			}
			select {
			case <-current.changed:
			case <-ctx.Done():
				return sent
			}
		}
	}
}

// view is what one reader sees of an answer at one time.
type view struct {
	status int
	head   http.Header
	// bytes is the next part for the reader. It is nil until the part has come.
	bytes []byte
	// ended says that the body has all its parts.
	ended bool
	// fails says that the answer was cut short.
	fails   bool
	changed <-chan struct{}
}

// viewAt returns the view of a reader whose next part is the one with the index part.
func (a *answer) viewAt(part int) view {
	a.mu.Lock()
	defer a.mu.Unlock()
	current := view{status: a.mu.status, head: a.mu.head, ended: a.mu.ended, fails: a.mu.panic != nil, changed: a.mu.changed}
	if part < len(a.mu.body) {
		current.bytes = a.mu.body[part]
	}
	return current
}

// removeReader records that a reader needs no more. After the last reader the body is dropped.
func (a *answer) removeReader() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.readers--; a.mu.readers > 0 {
		return
	}
	a.leave()
	a.dropLocked()
}

func (a *answer) dropLocked() {
	for _, p := range a.mu.body {
		a.heldBytes.Add(-int64(len(p)))
	}
	a.mu.body = nil
}

// readerHeaders are the headers that stay as filters have set them for each reader.
var readerHeaders = []string{"Audit-Id", "Connection"}

// sendHead sends the head of an answer to one of its readers.
func sendHead(w http.ResponseWriter, head http.Header, status int) {
	header := w.Header()
	own := http.Header{}
	for _, name := range readerHeaders {
		if values, ok := header[name]; ok {
			own[name] = values
		}
	}
	clear(header)
	maps.Copy(header, head)
	maps.Copy(header, own)
	w.WriteHeader(status)
}
