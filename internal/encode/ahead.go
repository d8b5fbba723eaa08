package encode

import (
	"iter"
	"runtime"
	"sync/atomic"
)

// What nobody has asked for yet takes much longer to encode than to send. So while a
// list is written, other processors encode the groups that it is about to come to.
// They do nothing but what a second reader would who is a little ahead.

const (
	// aheadWindow is how many groups a list looks ahead.
	aheadWindow = 8
	// mostHelpers work for one list.
	mostHelpers = 3
)

// helping has room for those that work for all lists: one processor is left to who
// writes.
var helping = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// ahead walks a list whose groups are encoded by prepare. Those that will be kept and
// are not there yet are begun before the walk comes to them. Errors are left to who
// comes there.
type ahead struct {
	list    *List
	cold    func(*slot) bool
	prepare func(Span) error

	work    chan *coming
	helpers atomic.Int32
	stopped atomic.Bool
}

// coming is a group that the walk has yet to come to.
type coming struct {
	span Span
	// taken is set by who encodes it; made is closed when a helper has.
	taken atomic.Bool
	made  chan struct{}
}

// spans yields those of the list.
func (a *ahead) spans() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		defer a.stopped.Store(true)
		var ring [aheadWindow]struct {
			span   Span
			coming *coming
		}
		var begun, done int
		next := func() bool {
			at := &ring[done%aheadWindow]
			done++
			if c := at.coming; c != nil && !c.taken.CompareAndSwap(false, true) {
				a.await(c)
			}
			return yield(at.span)
		}
		for span := range a.list.Spans {
			if begun-done == aheadWindow && !next() {
				return
			}
			ring[begun%aheadWindow].span, ring[begun%aheadWindow].coming = span, a.begin(span)
			begun++
		}
		for done < begun {
			if !next() {
				return
			}
		}
	}
}

// begin hands a cold group to a helper, if one has time. It returns nil for others.
func (a *ahead) begin(span Span) *coming {
	f := a.list.Form
	if f.cfg.Budget == nil || f.cfg.Row != nil || !span.most() {
		return nil
	}
	own, _, keep := span.Memo.slotOf(f, span.Entries)
	if !keep || !a.cold(own) || own.large() {
		return nil
	}
	if a.work == nil {
		a.work = make(chan *coming, aheadWindow)
	}
	c := &coming{span: span, made: make(chan struct{})}
	select {
	case a.work <- c:
	default:
		return nil // helpers are behind
	}
	if a.helpers.Load() < mostHelpers {
		room := helping
		select {
		case room <- struct{}{}:
			a.helpers.Add(1)
			go a.help(room)
		default:
		}
	}
	return c
}

// await returns when a helper has encoded a group. Meanwhile the walk does what comes
// after it.
func (a *ahead) await(c *coming) {
	for {
		select {
		case <-c.made:
			return
		default:
		}
		select {
		case <-c.made:
			return
		case later := <-a.work:
			a.take(later)
		}
	}
}

// help encodes what there is to do. It never waits for the walk, which may have
// come to a client that does not read.
func (a *ahead) help(room <-chan struct{}) {
	defer func() {
		a.helpers.Add(-1)
		<-room
	}()
	for !a.stopped.Load() {
		select {
		case c := <-a.work:
			a.take(c)
		default:
			return
		}
	}
}

// take encodes a group that nobody else does.
func (a *ahead) take(c *coming) {
	if !c.taken.CompareAndSwap(false, true) {
		return
	}
	defer close(c.made)
	defer func() { _ = recover() }() // the walk comes upon the same
	_ = a.prepare(c.span)
}
