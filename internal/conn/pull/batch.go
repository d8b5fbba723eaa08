package pull

import "sync"

const (
	// recordSize is the largest payload of a TLS record, in bytes.
	recordSize = 16 << 10
	// BatchSize is the number of bytes that a connection gathers for one write.
	BatchSize = 4 * recordSize
)

// Batch is a buffer for one write, with the description of that write. A connection has
// one only while it writes, so idle connections hold no buffer.
type Batch struct {
	Bytes []byte
	Write Write
}

// batchPool holds unused batches of the whole process.
var batchPool = sync.Pool{New: func() any { return &Batch{Bytes: make([]byte, 0, BatchSize)} }}

// NewBatch returns an empty batch from the pool.
func NewBatch() *Batch { return batchPool.Get().(*Batch) }

// Release returns the batch to the pool. One whose buffer has grown beyond twice
// BatchSize is dropped.
func (b *Batch) Release() {
	if cap(b.Bytes) <= 2*BatchSize {
		b.Bytes, b.Write = b.Bytes[:0], Write{}
		batchPool.Put(b)
	}
}
