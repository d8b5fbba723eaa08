package slo

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// FeedAccount is the account of the feed of one etcd cluster. The feed asks etcd for
// its progress every second, and reports requests and answers here. How long the
// answers take is the stage etcd: an event does not tell when it was committed.
//
// A nil FeedAccount keeps nothing.
type FeedAccount struct {
	set       *Watches
	prefix    string
	endpoints []string

	mu struct {
		sync.Mutex
		// revision is the newest revision up to which the cache is complete.
		revision int64
		// events, bytes, restarts and loads count since the start.
		events, bytes, restarts, loads uint64
		// err is why the watch broke. It is nil while the feed follows.
		err error
		// delivery has the times that answers took.
		delivery slidingMinute[sketch]
		// requestedAt is the time of the first request for progress since the newest answer. It
		// is zero if there is none.
		requestedAt time.Time
		// brokenSince is since when the watch is broken. It is zero while the feed follows, and
		// before a watch breaks for the first time.
		brokenSince time.Time
	}
}

// feeds are the accounts of all feeds.
type feeds struct {
	mu struct {
		sync.Mutex
		list []*FeedAccount
	}
}

// AddFeed begins the account of a feed. A nil set returns a nil account.
func (set *Watches) AddFeed(prefix string, endpoints []string) *FeedAccount {
	if set == nil {
		return nil
	}
	f := &FeedAccount{set: set, prefix: prefix, endpoints: endpoints}
	set.feeds.mu.Lock()
	defer set.feeds.mu.Unlock()
	set.feeds.mu.list = append(set.feeds.mu.list, f)
	return f
}

// all returns the feeds in the order of their endpoints.
func (f *feeds) all() []*FeedAccount {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.mu.list)
	slices.SortStableFunc(list, func(a, b *FeedAccount) int { return slices.Compare(a.endpoints, b.endpoints) })
	return list
}

// Now returns the time of the set's clock. A nil account returns the real time.
func (f *FeedAccount) Now() time.Time {
	if f == nil {
		return time.Now()
	}
	return f.set.cfg.Clock.Now()
}

// Advance records that the cache has everything up to revision. events is the number of the
// events that brought it there, and bytes the size of their keys and values.
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

// ProgressRequested records that etcd's watch was asked for its progress.
func (f *FeedAccount) ProgressRequested(at time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.requestedAt.IsZero() {
		f.mu.requestedAt = at
	}
}

// ProgressReceived records that etcd's watch answered with its progress.
func (f *FeedAccount) ProgressReceived(at time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.requestedAt.IsZero() {
		return
	}
	f.addAnswerLocked(at, at.Sub(f.mu.requestedAt))
	f.mu.requestedAt = time.Time{}
}

// askPeriod is the time between two requests for progress.
const askPeriod = time.Second

// eachAnswer calls use with the time that an answer took, and with the times of the
// answers that would have been requested meanwhile. So a long wait counts more than a
// short one. It stops at a minute, the length of slidingMinute.
func eachAnswer(took time.Duration, use func(time.Duration)) {
	use(max(0, took))
	for n := 1; n < int(time.Minute/askPeriod) && took > askPeriod; n++ {
		took -= askPeriod
		use(took)
	}
}

func (f *FeedAccount) addAnswerLocked(at time.Time, took time.Duration) {
	if slot := f.mu.delivery.slotFor(at.Sub(f.set.startedAt), fineSlot, (*sketch).reset); slot != nil {
		eachAnswer(took, func(d time.Duration) { slot.observe(d, bucket(d), 1) })
	}
}

// Loaded counts a load of all objects, from etcd or a checkpoint.
func (f *FeedAccount) Loaded() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.loads++
}

// WatchEstablished records that a new watch has caught up with etcd. It counts as an answer that
// took as long as the watch was broken.
func (f *FeedAccount) WatchEstablished() {
	if f == nil {
		return
	}
	now := f.set.cfg.Clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.mu.brokenSince.IsZero() {
		f.addAnswerLocked(now, now.Sub(f.mu.brokenSince))
	}
	f.mu.brokenSince, f.mu.err = time.Time{}, nil
}

// WatchBroke records that the watch broke, or could not begin, and why.
func (f *FeedAccount) WatchBroke(err error) {
	if f == nil {
		return
	}
	now := f.set.cfg.Clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.restarts++
	f.mu.err = err
	if f.mu.brokenSince.IsZero() {
		f.mu.brokenSince = now
		if !f.mu.requestedAt.IsZero() {
			f.mu.brokenSince = f.mu.requestedAt
		}
	}
	f.mu.requestedAt = time.Time{}
}

// lateAfter is the time from which a missing answer is late.
const lateAfter = time.Second

// lateLocked returns for how long etcd has not answered. It returns 0 if etcd is in time.
func (f *FeedAccount) lateLocked(now time.Time) time.Duration {
	since := f.mu.brokenSince
	if since.IsZero() {
		since = f.mu.requestedAt
	}
	if since.IsZero() {
		return 0
	}
	if d := now.Sub(since); d >= lateAfter {
		return d
	}
	return 0
}

// addToTallyLocked adds the answers of the last minute to a tally. An answer that is
// late counts with the time that it has taken so far.
func (f *FeedAccount) addToTallyLocked(t *tally, now time.Time) {
	f.mu.delivery.eachSlot(now.Sub(f.set.startedAt), fineSlot, t.add)
	if d := f.lateLocked(now); d > 0 {
		t.max = max(t.max, d)
		eachAnswer(d, func(d time.Duration) {
			t.counts[bucket(d)]++
			t.count++
		})
	}
}

// Feed returns the report that /debug/millrace/feed serves.
func (set *Watches) Feed() serverreport.FeedReport {
	now := set.cfg.Clock.Now()
	report := serverreport.FeedReport{Time: now, Feeds: []serverreport.Feed{}}
	for _, f := range set.feeds.all() {
		report.Feeds = append(report.Feeds, f.report(now))
	}
	return report
}

func (f *FeedAccount) report(now time.Time) serverreport.Feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all tally
	f.addToTallyLocked(&all, now)
	row := serverreport.Feed{
		Prefix: f.prefix, Endpoints: f.endpoints, Revision: f.mu.revision,
		LateSeconds: f.lateLocked(now).Seconds(), Delivery: all.quantiles(),
		Events: f.mu.events, Bytes: f.mu.bytes, Restarts: f.mu.restarts, Loads: f.mu.loads,
	}
	if f.mu.err != nil {
		row.Error = f.mu.err.Error()
	}
	return row
}

// tally adds up the answers of all feeds.
func (f *feeds) tally(now time.Time) *tally {
	var all tally
	for _, feed := range f.all() {
		feed.mu.Lock()
		feed.addToTallyLocked(&all, now)
		feed.mu.Unlock()
	}
	return &all
}

// mostLate returns the feed whose etcd has not answered for the longest time, that time, and
// why its watch is broken. The feed is nil if all are in time. err is nil if the watch is not
// broken.
func (f *feeds) mostLate(now time.Time) (worst *FeedAccount, late time.Duration, err error) {
	for _, feed := range f.all() {
		feed.mu.Lock()
		d, feedErr := feed.lateLocked(now), feed.mu.err
		feed.mu.Unlock()
		if cmp.Compare(d, late) > 0 {
			worst, late, err = feed, d, feedErr
		}
	}
	return worst, late, err
}
