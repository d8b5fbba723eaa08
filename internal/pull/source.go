package pull

import (
	"context"
	"time"
)

// Source gives the bytes of a stream's body.
type Source interface {
	// Next appends what comes next to segments, and never waits for it. The bytes are
	// left alone by everybody from then on: they are sent later, from where they are.
	// Next should give about room bytes, which is at most 16 KiB; what does not fit is
	// kept, and Next not called before it is sent. With more there is, or may be, more
	// to send: Next is called again when there is room. Without, it is called after
	// the next Wake. io.EOF ends the body behind these bytes; another error resets the
	// stream, and the bytes are dropped.
	//
	// Next is called by one goroutine at a time: what it does delays other streams.
	Next(segments [][]byte, room int) (_ [][]byte, more bool, err error)
}

// Receiver is a Source that is told what becomes of the bytes that it gave. It is told
// by the goroutine that calls Next, never at the same time.
type Receiver interface {
	// Sent says that some bytes of them are in the buffer of a write that is to come.
	// shut is nil if the client's windows are open. Locks are held: it must wait for
	// nothing, not call back, and not keep its arguments.
	Sent(w *Write, bytes int, shut *WindowStall)
	// Written says that a write has returned which carried bytes of some receivers, of
	// which one is told, for all. It must not block, and not keep its argument. It may
	// come after Pull has returned. A write that failed is not told.
	Written(*Write)
}

// WindowStall says how a client's windows keep a Source from sending.
type WindowStall struct {
	// Since is since when they have not been open wide enough to send everything, and
	// For how long they were shut in that time.
	Since time.Time
	For   time.Duration
}

// Write is one write to the connection, for all streams that it carries bytes of.
type Write struct {
	// Number counts the writes to a connection, from 1.
	Number uint64
	// Filled is when the writer began to gather what it writes. Began and Ended are of
	// the write; they and what follows are known to Written.
	Filled, Began, Ended time.Time
	// Busy is since when the connection has had something to write without a pause,
	// and Writing how long it was writing in that time, before Began.
	Busy    time.Time
	Writing time.Duration
	// Local is what receivers keep with the write, nil at first.
	Local any
}

// Puller takes the body of a response from a Source.
type Puller interface {
	// Pull sends what was written so far, and then what the source gives. It returns
	// when the source has ended and all is on its way (nil), with the source's error,
	// with ctx's, or with what ended the stream. The source is not called any more
	// then. The handler ends the response by returning.
	Pull(ctx context.Context, source Source) error
	// Waits says since when the source could give something that the client's windows
	// do not let through, and since when a write to the connection has been going on;
	// zero if that is not so. Any goroutine may call it.
	Waits() (window, write time.Time)
	// Locked calls use, which must wait for nothing and not call back, while nobody calls
	// Taken, with how many writes to the connection have returned.
	Locked(use func(returned uint64))
	// Wake has the source called, once for all calls before that. It waits for
	// nothing: any goroutine may call it, with any lock held, also before and after
	// Pull, when it does nothing.
	Wake()
}
