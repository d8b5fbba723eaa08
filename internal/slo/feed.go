package slo

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// FeedAccount is of the watch of one etcd. The nil account keeps nothing.
type FeedAccount struct {
	set       *Watches
	prefix    string
	endpoints []string

	mu struct {
		sync.Mutex
		revision int64
		events   uint64
		bytes    uint64
		restarts uint64
		loads    uint64
		err      error
		delivery window[sketch]
		// asked is since when the feed waits for an answer, zero if it does not.
		asked time.Time
		// broken is since when there is no watch, zero if there is one.
		broken time.Time
	}
}

type feeds struct {
	mu   sync.Mutex
	list []*FeedAccount
}

// AddFeed begins the account of a feed. A nil set keeps none.
func (x *Watches) AddFeed(prefix string, endpoints []string) *FeedAccount {
	if x == nil {
		return nil
	}
	f := &FeedAccount{set: x, prefix: prefix, endpoints: endpoints}
	x.feeds.mu.Lock()
	defer x.feeds.mu.Unlock()
	x.feeds.list = append(x.feeds.list, f)
	return f
}

// all are in the order of their endpoints.
func (f *feeds) all() []*FeedAccount {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.list)
	slices.SortStableFunc(list, func(a, b *FeedAccount) int { return slices.Compare(a.endpoints, b.endpoints) })
	return list
}

// Now is the clock's time. The nil account has the real one.
func (f *FeedAccount) Now() time.Time {
	if f == nil {
		return time.Now()
	}
	return f.set.cfg.Clock.Now()
}

// Advance says up to which revision the cache has everything, and how many events
// with how many bytes of keys and values brought it there.
func (f *FeedAccount) Advance(revision int64, events int, bytes int64) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.revision = max(f.mu.revision, revision)
	f.mu.events += uint64(events)
	f.mu.bytes += uint64(bytes)
}

// ProgressRequested says that etcd's watch was asked to answer.
func (f *FeedAccount) ProgressRequested(at time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.asked.IsZero() {
		f.mu.asked = at
	}
}

// ProgressReceived says that it did.
func (f *FeedAccount) ProgressReceived(at time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.asked.IsZero() {
		return
	}
	f.answeredLocked(at, at.Sub(f.mu.asked))
	f.mu.asked = time.Time{}
}

// askPeriod is how often etcd is asked.
const askPeriod = time.Second

// answers calls use with the times of an answer, and of those that were not asked for
// meanwhile: one long wait is not one short one's equal. More than a minute's would be
// of no use.
func answers(took time.Duration, use func(time.Duration)) {
	use(max(0, took))
	for n := 1; n < int(minute/askPeriod) && took > askPeriod; n++ {
		took -= askPeriod
		use(took)
	}
}

func (f *FeedAccount) answeredLocked(at time.Time, took time.Duration) {
	if into := f.mu.delivery.at(at.Sub(f.set.began), fine, (*sketch).reset); into != nil {
		answers(took, func(d time.Duration) { into.observe(d, bucket(d), 1) })
	}
}

// Reloaded says that everything was read anew.
func (f *FeedAccount) Reloaded() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.loads++
}

// WatchEstablished says that the watch is there and was answered on. For how long there was
// none is how long that answer took.
func (f *FeedAccount) WatchEstablished() {
	if f == nil {
		return
	}
	now := f.set.cfg.Clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.mu.broken.IsZero() {
		f.answeredLocked(now, now.Sub(f.mu.broken))
	}
	f.mu.broken, f.mu.err = time.Time{}, nil
}

// WatchBroke says that the watch broke.
func (f *FeedAccount) WatchBroke(err error) {
	if f == nil {
		return
	}
	now := f.set.cfg.Clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.restarts++
	f.mu.err = err
	if f.mu.broken.IsZero() {
		f.mu.broken = now
		if !f.mu.asked.IsZero() {
			f.mu.broken = f.mu.asked
		}
	}
	f.mu.asked = time.Time{}
}

// lateFrom is how long an answer may take. What took less is no delay that is worth
// a word.
const lateFrom = time.Second

// late is for how long etcd has not answered, 0 if that is in time.
func (f *FeedAccount) lateLocked(now time.Time) time.Duration {
	since := f.mu.broken
	if since.IsZero() {
		since = f.mu.asked
	}
	if since.IsZero() {
		return 0
	}
	if d := now.Sub(since); d >= lateFrom {
		return d
	}
	return 0
}

// tellLocked adds the answers of the last minute, and the one that is waited for as
// late as it is already.
func (f *FeedAccount) tellLocked(t *tally, now time.Time) {
	f.mu.delivery.each(now.Sub(f.set.began), fine, t.add)
	if d := f.lateLocked(now); d > 0 {
		t.max = max(t.max, d)
		answers(d, func(d time.Duration) {
			t.counts[bucket(d)]++
			t.count++
		})
	}
}

// Feed is /debug/millrace/feed.
func (x *Watches) Feed() report.FeedReport {
	now := x.cfg.Clock.Now()
	result := report.FeedReport{Time: now, Feeds: []report.Feed{}}
	for _, f := range x.feeds.all() {
		result.Feeds = append(result.Feeds, f.report(now))
	}
	return result
}

func (f *FeedAccount) report(now time.Time) report.Feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all tally
	f.tellLocked(&all, now)
	told := report.Feed{
		Prefix: f.prefix, Endpoints: f.endpoints, Revision: f.mu.revision,
		Late: f.lateLocked(now).Seconds(), Delivery: all.quantiles(),
		Events: f.mu.events, Bytes: f.mu.bytes, Restarts: f.mu.restarts, Loads: f.mu.loads,
	}
	if f.mu.err != nil {
		told.Error = f.mu.err.Error()
	}
	return told
}

// tally adds up what all feeds were answered.
func (f *feeds) tally(now time.Time) *tally {
	var all tally
	for _, feed := range f.all() {
		feed.mu.Lock()
		feed.tellLocked(&all, now)
		feed.mu.Unlock()
	}
	return &all
}

// latest returns the feed that is furthest behind, nil if all are in time.
func (f *feeds) latest(now time.Time) (worst *FeedAccount, late time.Duration, err error) {
	for _, feed := range f.all() {
		feed.mu.Lock()
		d, why := feed.lateLocked(now), feed.mu.err
		feed.mu.Unlock()
		if cmp.Compare(d, late) > 0 {
			worst, late, err = feed, d, why
		}
	}
	return worst, late, err
}
