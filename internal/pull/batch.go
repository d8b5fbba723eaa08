package pull

import "sync"

const (
	// recordSize is the most that a TLS record holds, in bytes.
	recordSize = 16 << 10
	// BatchSize is how much is written at once, in bytes.
	BatchSize = 4 * recordSize
)

// Batch is a buffer with what there is to tell of its write. A connection has one while
// it writes.
type Batch struct {
	Bytes []byte
	Write Write
}

var batchPool = sync.Pool{New: func() any { return &Batch{Bytes: make([]byte, 0, BatchSize)} }}

// NewBatch returns an empty one.
func NewBatch() *Batch { return batchPool.Get().(*Batch) }

// Release gives it back.
func (b *Batch) Release() {
	if cap(b.Bytes) <= 2*BatchSize {
		b.Bytes, b.Write = b.Bytes[:0], Write{}
		batchPool.Put(b)
	}
}
