package read

import (
	"io"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/conn/pull"
	"github.com/millrace/millrace/internal/wire/encode"
)

// followPulled lets pull workers take events from the watch until it ends. Meanwhile the
// request's goroutine waits, and does what the schedule has due.
func (s *watchSession) followPulled() error {
	var all pull.Source
	source := new(watchSource)
	if all = source; s.account != nil {
		accounted := new(accountedSource)
		source, all = &accounted.watchSource, accounted
		source.sendAccount = &accounted.sendAccount
	}
	source.watchSession = s
	s.account.SetSendAccount(source.sendAccount)
	defer source.release()
	for {
		if err := s.puller.Pull(s.req.Context(), all); err != nil {
			s.broken = true
			return err
		}
		switch {
		case source.err != nil:
			return source.err
		case s.wake.ended.Load():
			return errWatchEnded
		}
		if err := s.runSchedule(time.Now(), source.reached, source.more); err != nil {
			return err
		}
	}
}

// changeBuffers are buffers of changes that are sent next. An idle watch has none.
var changeBuffers = sync.Pool{New: func() any { return new([]encode.Change) }}

// watchSource gives the frames of a watch to the workers of its connection. It implements
// pull.Source. For a client that does not read, it keeps one batch of changes and no
// frames. One goroutine uses it at a time: a worker, or the request's goroutine outside
// of Pull.
type watchSource struct {
	*watchSession
	// sendAccount times the events. It is nil if no account is kept.
	sendAccount *slo.SendAccount
	// buf is the buffer of changes. It is nil if there are none.
	buf *[]encode.Change
	// changes are the changes of the batch that are not encoded for the connection yet.
	changes []encode.Change
	// more says that the cursor has events after changes.
	more bool
	// cursorErr ends the watch after changes.
	cursorErr error
	// reached is a revision up to which the watch is complete once changes are sent and
	// more is false. It is the feed's revision before the cursor was last read, or the
	// newest change's if that is ahead of it.
	reached int64
	// conversion is what changes wait for. It is nil if they need not wait.
	conversion *liveConversion
	// converted says that changes need not wait any more.
	converted bool
	// err is why the watch ends, once Next has returned io.EOF. It is nil if the request's
	// goroutine has something else to do.
	err error
}

// Next implements pull.Source. It returns io.EOF when the request's goroutine has
// something to do.
func (p *watchSource) Next(segments [][]byte, room int) (_ [][]byte, more bool, err error) {
	if p.wake.ended.Load() {
		return segments, false, io.EOF
	}
	if len(p.changes) == 0 {
		if p.err = p.cursorErr; p.err != nil || p.due() {
			return segments, false, io.EOF
		}
		if !p.isQuiet() {
			p.read()
		}
		if len(p.changes) == 0 {
			return p.appendRequested(segments, p.more || p.cursorErr != nil)
		}
	}
	if !p.awaitConversion() {
		if p.err != nil || p.pastDeadline() {
			return segments, false, io.EOF
		}
		return segments, false, nil
	}
	before, given := len(segments), p.changes
	segments, p.changes, p.err = p.out.Append(segments, p.changes, room)
	if p.err != nil {
		p.err = &encodingError{p.err}
		return segments, false, io.EOF
	}
	p.written += totalBytes(segments[before:])
	p.queueGiven(given[:len(given)-len(p.changes)], segments[before:])
	if len(p.changes) == 0 {
		p.release()
		return p.appendRequested(segments, true)
	}
	return segments, true, nil
}

// due reports whether the schedule has something that can be done now. Bookmarks wait
// until all events are sent.
func (p *watchSource) due() bool {
	return p.wake.due.Load() && (!p.more || p.pastDeadline())
}

// pastDeadline reports whether the watch's time is over.
func (p *watchSource) pastDeadline() bool { return !time.Now().Before(p.schedule.deadline) }

// read takes the next batch of changes from the cursor.
func (p *watchSource) read() {
	if p.buf == nil {
		p.buf = changeBuffers.Get().(*[]encode.Change)
	}
	p.converted = false
	p.reached = max(p.reached, p.query.route.cfg.Objects.Progress().Revision())
	*p.buf, p.more, p.cursorErr = p.cursor.Next((*p.buf)[:0])
	if p.changes = *p.buf; len(p.changes) == 0 {
		p.release()
		return
	}
	p.reached = max(p.reached, p.changes[len(p.changes)-1].Revision)
}

// release gives the buffer back to the pool.
func (p *watchSource) release() {
	if p.buf != nil {
		clear(*p.buf)
		changeBuffers.Put(p.buf)
		p.buf, p.changes = nil, nil
	}
}
