package encode

import (
	"bytes"
	"io"
	"sync"

	"github.com/millrace/millrace/internal/wire/deflate"
)

// Encoding is a content coding of HTTP (RFC 9110, 8.4.1).
type Encoding string

// The codings that lists are written in. Identity is none.
const (
	Identity Encoding = ""
	Gzip     Encoding = "gzip"
	Zstd     Encoding = "zstd"
)

// output gathers small parts into writes that are worth a system call, and compresses
// parts that were not compressed before. Its buffers are all the memory that a list or
// stream takes for writing. They come from a pool, and release gives them back.
type output struct {
	w        io.Writer
	encoding Encoding
	// pending are plain bytes that are not compressed yet. They come after ready, which are
	// wire bytes that are not written yet.
	pending []byte
	ready   bytes.Buffer
	sum     gzipSum
	// stored says that the gzip stream ends with a stored block. See sync.
	stored bool
}

const (
	// chunkBytes is how many bytes are gathered before they are written.
	chunkBytes = 64 << 10
	// minDirectWrite is the size from which a part is written without being copied.
	minDirectWrite = 16 << 10
)

var outputs = sync.Pool{New: func() any { return new(output) }}

func newOutput(w io.Writer, encoding Encoding) *output {
	out := outputs.Get().(*output)
	out.w, out.encoding, out.pending, out.sum = w, encoding, out.pending[:0], gzipSum{}
	out.stored = false
	out.ready.Reset()
	switch encoding {
	case Gzip:
		out.ready.Write(gzipHeader)
	case Zstd:
		out.ready.Write(zstdHeader)
	}
	return out
}

// resume continues a stream whose beginning another output wrote: it has no header, and
// its checksum begins with sum.
func (o *output) resume(sum gzipSum) {
	o.sum = sum
	o.ready.Reset()
}

func (o *output) release() {
	o.w = nil
	if cap(o.pending)+o.ready.Cap() <= 8*chunkBytes {
		outputs.Put(o)
	}
}

// plain adds bytes that are not compressed. part stays the caller's.
func (o *output) plain(part []byte) error {
	if o.encoding == Identity && len(part) >= minDirectWrite {
		if err := o.flush(); err != nil {
			return err
		}
		_, err := o.w.Write(part)
		return wrapWrite(err)
	}
	o.pending = append(o.pending, part...)
	if len(o.pending) < chunkBytes {
		return nil
	}
	return o.flush()
}

// compressed adds a segment that is compressed with the output's coding.
func (o *output) compressed(w *segment) error {
	o.compress()
	segment := w.bytes
	switch o.encoding {
	case Gzip:
		o.sum.addSum(w.crc, w.size)
		o.stored = false
	case Zstd:
		segment = blocksOf(segment)
	}
	if o.ready.Len()+len(segment) < 2*chunkBytes {
		o.ready.Write(segment)
		return nil
	}
	if err := o.drain(); err != nil {
		return err
	}
	if len(segment) < minDirectWrite {
		o.ready.Write(segment)
		return nil
	}
	_, err := o.w.Write(segment)
	return wrapWrite(err)
}

// compress moves the pending bytes to the ready ones.
func (o *output) compress() {
	src := o.pending
	o.pending = o.pending[:0]
	if len(src) == 0 {
		return
	}
	switch o.encoding {
	case Identity:
		o.ready.Write(src)
	case Zstd:
		o.ready.Write(appendBlocks(o.ready.AvailableBuffer(), src))
	case Gzip:
		o.sum.addBytes(src)
		if o.stored = len(src) <= maxUncompressed; o.stored {
			o.ready.Write(appendStored(o.ready.AvailableBuffer(), src))
			return
		}
		o.ready.Write(deflate.Append(o.ready.AvailableBuffer(), src))
	}
}

// maxUncompressed is the number of bytes that are not worth compressing, such as a
// separator.
const maxUncompressed = 128

// flush writes everything that was added.
func (o *output) flush() error {
	o.compress()
	return o.drain()
}

// sync writes everything, so that the client can decode all of it. Some decoders hold back
// the bytes of a stored block until another block begins, so sync begins an empty one.
func (o *output) sync() error {
	o.compress()
	if o.stored {
		o.ready.Write(deflateEmptyBlock)
		o.stored = false
	}
	return o.drain()
}

// drain writes the ready bytes.
func (o *output) drain() error {
	if o.ready.Len() == 0 {
		return nil
	}
	_, err := o.w.Write(o.ready.Bytes())
	o.ready.Reset()
	return wrapWrite(err)
}

// end writes the remaining bytes and the trailer.
func (o *output) end() error {
	o.compress()
	switch o.encoding {
	case Gzip:
		o.ready.Write(o.sum.appendTrailer(o.ready.AvailableBuffer()))
	case Zstd:
		o.ready.Write(zstdEnd)
	}
	return o.drain()
}
