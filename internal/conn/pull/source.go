package pull

import (
	"context"
	"time"
)

// Source produces the bytes of a response body.
type Source interface {
	// Next appends the next bytes to chunks and returns the longer list. It must not
	// block. The bytes stay in place until they are sent, so the source must never change
	// them.
	//
	// Next should produce about room bytes, which is at most 16 KiB. If it produces more,
	// the Puller keeps the excess and sends that first.
	//
	// more says that there may be more bytes now: Next is called again once there is
	// room. Without more, Next is called after the next Wake. The error io.EOF ends the
	// Pull once these bytes are handed over: the handler may then write, and Pull again.
	// Any other error resets the stream, or closes an HTTP/1.1 connection, and these bytes
	// are dropped.
	//
	// Next is never called concurrently. While it runs, all other streams of the
	// connection wait.
	Next(chunks [][]byte, room int) (_ [][]byte, more bool, err error)
}

// Receiver may be implemented by a Source. It is told when its bytes enter a write, and when
// that write has returned. Both methods are called by the goroutine that writes for the
// connection, as Next is, never concurrently.
type Receiver interface {
	// Placed says that bytes of this source have been put into the buffer of write w, which
	// is about to begin. stall is nil if the client's flow-control windows have not stalled
	// since they last let everything through. The connection's lock is held: Placed must not
	// block, call the Puller back, or keep its arguments.
	Placed(w *Write, bytes int, stall *WindowStall)
	// Written says that a write has returned. It is called on one of the receivers whose
	// bytes the write carried, on behalf of all of them; Write.Local connects these. It
	// must not block, nor keep its argument. It may be called after Pull has returned. It
	// is not called for a write that failed.
	Written(*Write)
}

// WindowStall describes how the client's flow-control windows delay a Source.
type WindowStall struct {
	// Since is when the windows last became too small to send all that the source has.
	Since time.Time
	// For is how long the windows were shut between then and the present write.
	For time.Duration
}

// Write describes one write to a connection. It carries bytes of any number of streams.
type Write struct {
	// Number counts the writes of the connection, from 1. Writes that fail, or carry no bytes of
	// a Receiver, need not count.
	Number uint64
	// FillBegan is when the writer began to fill the buffer. Began and Ended enclose the
	// write itself. All fields but Number, FillBegan and Local are valid from
	// Receiver.Written on.
	FillBegan, Began, Ended time.Time
	// BusySince is the time from which on the connection had something to write without a pause.
	// If that is long ago, it is a later time (WriteClock.Complete).
	BusySince time.Time
	// Writing is how long the connection was writing from BusySince to Began.
	Writing time.Duration
	// Local belongs to the receivers: they may attach a value to the write. It is nil at
	// first.
	Local any
}

// Puller is a response whose body comes from a Source.
type Puller interface {
	// Pull flushes what the handler has written, then sends what the source produces. It
	// returns nil when the source has ended and everything has been handed to the
	// connection. Otherwise it returns the error of the source, of ctx, or of the stream,
	// whichever comes first. After that, the source is not called any more. The handler
	// ends the response by returning.
	Pull(ctx context.Context, source Source) error
	// Waits says what keeps bytes from being sent. windowClosed is since when the client's
	// flow-control windows have been too small for the source's bytes. It is zero if they are
	// large enough. writeBegan is since when a write to the connection has been in progress. It
	// is zero between writes. Waits may be called from any goroutine.
	Waits() (windowClosed, writeBegan time.Time)
	// WithLock calls use with the connection's lock held: meanwhile no Receiver.Placed is
	// in progress. returned is the Number of the last write that has returned, or 0. use must
	// not block or call the Puller back.
	WithLock(use func(returned uint64))
	// Wake asks a worker to call the source soon; several calls before that count as one.
	// It never blocks. It may be called from any goroutine, with any lock held, and also
	// before and after Pull, when it has no effect.
	Wake()
}
