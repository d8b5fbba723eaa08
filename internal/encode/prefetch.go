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
	// prefetchWindow is how many groups a list looks ahead.
	prefetchWindow = 8
	// maxHelpers work for one list.
	maxHelpers = 3
)

// helperSlots has room for those that work for all lists: one processor is left to who
// writes.
var helperSlots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// prefetcher walks a list whose groups are encoded by prepare. Those that will be kept and
// are not there yet are begun before the walk comes to them. Errors are left to who
// comes there.
type prefetcher struct {
	list    *List
	cold    func(*slot) bool
	prepare func(Span) error

	work    chan *prefetch
	helpers atomic.Int32
	stopped atomic.Bool
}

// prefetch is a group that the walk has yet to come to.
type prefetch struct {
	span Span
	// claimed is set by who encodes it; made is closed when a helper has.
	claimed atomic.Bool
	done    chan struct{}
}

// spans yields those of the list.
func (p *prefetcher) spans() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		defer p.stopped.Store(true)
		var ring [prefetchWindow]struct {
			span   Span
			coming *prefetch
		}
		var begun, done int
		next := func() bool {
			at := &ring[done%prefetchWindow]
			done++
			if c := at.coming; c != nil && !c.claimed.CompareAndSwap(false, true) {
				p.await(c)
			}
			return yield(at.span)
		}
		for span := range p.list.Spans {
			if begun-done == prefetchWindow && !next() {
				return
			}
			ring[begun%prefetchWindow].span, ring[begun%prefetchWindow].coming = span, p.start(span)
			begun++
		}
		for done < begun {
			if !next() {
				return
			}
		}
	}
}

// start hands a cold group to a helper, if one has time. It returns nil for others.
func (p *prefetcher) start(span Span) *prefetch {
	f := p.list.Form
	if f.cfg.Budget == nil || f.cfg.Row != nil || !span.coversMost() {
		return nil
	}
	own, _, keep := span.Memo.slotOf(f, span.Entries)
	if !keep || !p.cold(own) || own.large() {
		return nil
	}
	if p.work == nil {
		p.work = make(chan *prefetch, prefetchWindow)
	}
	c := &prefetch{span: span, done: make(chan struct{})}
	select {
	case p.work <- c:
	default:
		return nil // helpers are behind
	}
	if p.helpers.Load() < maxHelpers {
		room := helperSlots
		select {
		case room <- struct{}{}:
			p.helpers.Add(1)
			go p.help(room)
		default:
		}
	}
	return c
}

// await returns when a helper has encoded a group. Meanwhile the walk does what comes
// after it.
func (p *prefetcher) await(c *prefetch) {
	for {
		select {
		case <-c.done:
			return
		default:
		}
		select {
		case <-c.done:
			return
		case later := <-p.work:
			p.encode(later)
		}
	}
}

// help encodes what there is to do. It never waits for the walk, which may have
// come to a client that does not read.
func (p *prefetcher) help(room <-chan struct{}) {
	defer func() {
		p.helpers.Add(-1)
		<-room
	}()
	for !p.stopped.Load() {
		select {
		case c := <-p.work:
			p.encode(c)
		default:
			return
		}
	}
}

// encode encodes a group that nobody else does.
func (p *prefetcher) encode(c *prefetch) {
	if !c.claimed.CompareAndSwap(false, true) {
		return
	}
	defer close(c.done)
	defer func() { _ = recover() }() // the walk comes upon the same
	_ = p.prepare(c.span)
}
