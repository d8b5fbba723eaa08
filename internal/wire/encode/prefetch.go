package encode

import (
	"iter"
	"runtime"
	"sync/atomic"
)

const (
	// prefetchWindow is how many groups a list looks ahead.
	prefetchWindow = 8
	// maxHelpers is how many goroutines work for one list at most.
	maxHelpers = 3
)

// helperSemaphore bounds the helpers of all lists in the process. A send takes a slot, a
// receive frees it. One processor is left to the goroutines that write.
var helperSemaphore = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// prefetcher encodes cold groups of a list ahead of the goroutine that walks it. To encode
// a group for the first time takes much longer than to send it, so other processors help.
//
// A helper does what a second reader of the list would do that is a little ahead. It fills
// the memo, or encodes a group that is only passed. So nothing depends on helpers. The walk
// claims a group that no helper has. Errors and panics of a helper are dropped, because the
// walk meets the same.
//
// Helpers start when there is work and end when there is none. They never wait for the
// walk, which may have come to a client that does not read. A prefetcher is for one walk.
type prefetcher struct {
	list *List
	// cold reports whether a slot lacks what the walk needs.
	cold func(*slot) bool
	// prepare encodes a group. The result is found in the memo, or is the group's passed.
	prepare func(*prefetch) error

	// work has the groups that wait for a helper. It is nil until there is one.
	work    chan *prefetch
	helpers atomic.Int32
	stopped atomic.Bool
}

// prefetch is a cold group that the walk has not reached yet.
type prefetch struct {
	run EntryRun
	// claimed is set by the goroutine that encodes the group: a helper, or the walk.
	claimed atomic.Bool
	// done is closed when a helper has encoded the group.
	done chan struct{}
	// segment holds a result that is not kept until the walk has used it. It and passed are
	// set before done is closed.
	segment *segment
	// passed is a result that is in no memo.
	passed *passedSegment
}

// runs yields the runs of the list.
func (p *prefetcher) runs() iter.Seq[EntryRun] {
	return func(yield func(EntryRun) bool) {
		defer p.stopped.Store(true)
		var ring [prefetchWindow]struct {
			run      EntryRun
			prefetch *prefetch
		}
		var begun, yielded int
		next := func() bool {
			group := &ring[yielded%prefetchWindow]
			yielded++
			f := group.prefetch
			if f != nil && !f.claimed.CompareAndSwap(false, true) {
				p.await(f)
				if group.run.passed = f.passed; f.passed != nil {
					defer f.passed.release()
				}
			}
			more := yield(group.run)
			runtime.KeepAlive(f)
			group.prefetch = nil
			return more
		}
		for run := range p.list.Runs {
			if begun-yielded == prefetchWindow && !next() {
				return
			}
			ring[begun%prefetchWindow].run, ring[begun%prefetchWindow].prefetch = run, p.start(run)
			begun++
		}
		for yielded < begun {
			if !next() {
				return
			}
		}
	}
}

// start hands a cold group to the helpers. It returns nil for a group that the walk must
// encode itself, or that has nothing to encode or to keep.
func (p *prefetcher) start(run EntryRun) *prefetch {
	f := p.list.Form
	if f.cfg.Budget == nil || f.cfg.Row != nil || !run.coversMost() {
		return nil
	}
	own, _, keep := run.Memo.slotOf(f, run.Entries)
	if !keep || !p.cold(own) || own.large() {
		return nil
	}
	if p.work == nil {
		p.work = make(chan *prefetch, prefetchWindow)
	}
	group := &prefetch{run: run, done: make(chan struct{})}
	select {
	case p.work <- group:
	default:
		return nil // the helpers lag
	}
	if p.helpers.Load() < maxHelpers {
		// A test may replace helperSemaphore while a helper runs.
		semaphore := helperSemaphore
		select {
		case semaphore <- struct{}{}:
			p.helpers.Add(1)
			go p.help(semaphore)
		default:
		}
	}
	return group
}

// await returns when a helper has encoded the group. Meanwhile the caller encodes later
// groups.
func (p *prefetcher) await(group *prefetch) {
	for {
		select {
		case <-group.done:
			return
		default:
		}
		select {
		case <-group.done:
			return
		case later := <-p.work:
			p.encode(later)
		}
	}
}

// help encodes groups until there are none, or the walk has ended.
func (p *prefetcher) help(semaphore <-chan struct{}) {
	defer func() {
		p.helpers.Add(-1)
		<-semaphore
	}()
	for !p.stopped.Load() {
		select {
		case group := <-p.work:
			p.encode(group)
		default:
			return
		}
	}
}

// encode encodes a group that no goroutine has claimed.
func (p *prefetcher) encode(group *prefetch) {
	if !group.claimed.CompareAndSwap(false, true) {
		return
	}
	defer close(group.done)
	defer func() { _ = recover() }() // The walk meets the same panic.
	_ = p.prepare(group)
}
