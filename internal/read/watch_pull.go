package read

import (
	"io"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/pull"
	"github.com/millrace/millrace/internal/slo"
)

// followPulled has whoever writes to the connection take the events. The request's
// goroutine rests until something is due.
func (s *watchSession) followPulled() error {
	var all pull.Source
	source := new(watchSource)
	if all = source; s.account != nil {
		x := new(accountedSource)
		source, all = &x.watchSource, x
		source.sender = &x.sender
	}
	source.watchSession = s
	s.account.SetSender(source.sender)
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
		if err := s.act(time.Now(), source.reached, source.more); err != nil {
			return err
		}
	}
}

// changeBuffers hold what goes out next. An idle watch has none.
var changeBuffers = sync.Pool{New: func() any { return new([]encode.Change) }}

// watchSource gives the frames of a watch to whoever writes to its connection. It implements
// pull.Source. A client that does not read holds the changes of one batch, and no
// frames but those of one turn.
type watchSource struct {
	*watchSession
	// sender is nil without an account.
	sender  *slo.Sender
	buf     *[]encode.Change
	pending []encode.Change
	// more and lost come behind what is pending.
	more      bool
	cursorErr error
	// reached is what the feed had finished before the cursor was read for the last
	// time, or the newest change that was read, of which the feed may not know yet:
	// without more, everything up to there has been sent with what is pending.
	reached int64
	// conversion is what the pending changes wait for, ready once they need not.
	conversion *liveConversion
	ready      bool
	// err is why the watch ends.
	err error
}

// Next implements pull.Source. Its end is where the request's goroutine has
// something to do.
func (p *watchSource) Next(segments [][]byte, room int) (_ [][]byte, more bool, err error) {
	if p.wake.ended.Load() {
		return segments, false, io.EOF
	}
	if len(p.pending) == 0 {
		if p.err = p.cursorErr; p.err != nil || p.due() {
			return segments, false, io.EOF
		}
		if p.read(); len(p.pending) == 0 {
			return segments, p.more || p.cursorErr != nil, nil
		}
	}
	if !p.converted() {
		if p.err != nil || p.overdue() {
			return segments, false, io.EOF
		}
		return segments, false, nil
	}
	before, given := len(segments), p.pending
	segments, p.pending, p.err = p.out.Append(segments, p.pending, room)
	if p.err != nil {
		p.err = &encodingError{p.err}
		return segments, false, io.EOF
	}
	p.written += totalBytes(segments[before:])
	p.queueSent(given[:len(given)-len(p.pending)], segments[before:])
	if len(p.pending) == 0 {
		p.release()
	}
	return segments, true, nil
}

// due reports whether the schedule has something that can be done now: bookmarks
// wait until all events are sent.
func (p *watchSource) due() bool {
	return p.wake.due.Load() && (!p.more || p.overdue())
}

func (p *watchSource) overdue() bool { return !time.Now().Before(p.schedule.deadline) }

// read takes what is there from the cursor.
func (p *watchSource) read() {
	if p.buf == nil {
		p.buf = changeBuffers.Get().(*[]encode.Change)
	}
	p.ready = false
	p.reached = max(p.reached, p.query.route.cfg.Source.Progress().Revision())
	*p.buf, p.more, p.cursorErr = p.cursor.Next((*p.buf)[:0])
	if p.pending = *p.buf; len(p.pending) == 0 {
		p.release()
		return
	}
	p.reached = max(p.reached, p.pending[len(p.pending)-1].Revision)
}

func (p *watchSource) release() {
	if p.buf != nil {
		clear(*p.buf)
		changeBuffers.Put(p.buf)
		p.buf, p.pending = nil, nil
	}
}
