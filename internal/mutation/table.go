package mutation

// Mutation is one way to break the server.
type Mutation int

const (
	none Mutation = iota
	EventDropped
	EventDoubled
	EventsReordered
	EventLost
	DeletionUntold
	DeletionOld
	LeaveModified
	LeaveUntold
	ResumeShort
	ResumeDoubled
	ExpiryUntold
	BookmarkAhead
	BookmarkUnasked
	InitialEndEarly
	InitialEndOld
	WatchBeginsOld
	FeedFrozen
	ListAhead
	ProgressEarly
	VersionNotAwaited
	FutureExpired
	ConsistentUnproven
	ExactAtNewest
	PageAtNewest
	PageOverlaps
	LimitIgnored
	RemainingWrong
	IndexOld
	MemoOld
	GapUntold
)

// Row describes a mutation.
type Row struct {
	Mutation Mutation
	// Name is the value of the environment variable.
	Name string
	// Breaks says what the server does wrong.
	Breaks string
	// Promise is the promise of `millrace-tools verify` whose check must find it, and Guarantee
	// begins the summary of such a violation: a watch is checked for several guarantees. ""
	// stands for any.
	Promise, Guarantee string
	// Fault is the kind of fault that has to happen, "" if none has to.
	Fault string
}

const (
	watches = "watches"
	states  = "lists are states"
	pages   = "pages are of one revision and size"
)

// Table lists all mutations.
func Table() []Row {
	return []Row{
		{EventDropped, "event-dropped", "a watch is not told of one event in seven", watches, "complete", ""},
		{EventDoubled, "event-doubled", "a watch is told of an event twice", watches, "unique", ""},
		{EventsReordered, "events-reordered", "of events that a watch is told at once, the last two change places", watches, "ordered", ""},
		{EventLost, "event-lost", "the cache is never told of an acknowledged write", watches, "complete", ""},
		{DeletionUntold, "deletion-untold", "no watch is told of a deletion", "acknowledged writes are kept", "", ""},
		{DeletionOld, "deletion-old", "DELETED has the revision of the last version, not that of the deletion", "one history", "", ""},
		{LeaveModified, "leave-modified", "an object that a selector no longer selects is MODIFIED, not DELETED", watches, "transitions", ""},
		{LeaveUntold, "leave-untold", "a watch is not told that its selector no longer selects an object", watches, "complete", ""},
		{ResumeShort, "resume-short", "a watch that resumes misses the first event", watches, "complete", ""},
		{ResumeDoubled, "resume-doubled", "a watch is told of events from before the version that it resumes from, or from before its initial state", watches, "unique", ""},
		{ExpiryUntold, "expiry-untold", "a short history forgets events and does not answer 410 to clients that need them", watches, "complete", ""},
		{BookmarkAhead, "bookmark-ahead", "a bookmark has a revision of which not all events were sent", watches, "bookmarks", ""},
		{BookmarkUnasked, "bookmark-unasked", "bookmarks come to clients that did not allow them", watches, "bookmarks", ""},
		{InitialEndEarly, "initial-end-early", "initial events are said to end before the first one", watches, "initial end", ""},
		{InitialEndOld, "initial-end-old", "the end of initial events has an older revision than they have", watches, "initial", ""},
		{WatchBeginsOld, "watch-begins-old", "a watch without a version begins with a state of 20 revisions ago", "watches begin with the newest state", "", ""},
		{FeedFrozen, "feed-frozen", "the server ceases to follow etcd, and goes on", "servers show the last write", "", ""},
		{ListAhead, "list-ahead", "a list has a newer version than its objects", states, "", ""},
		{ProgressEarly, "progress-early", "the cache says that it has events which it is only about to apply", states, "", ""},
		{VersionNotAwaited, "version-not-awaited", "a read of version N is answered before the cache has reached it", "reads are not older than asked", "", ""},
		{FutureExpired, "future-expired", "a version that does not exist yet is called expired", "answers are those that the request has", "", ""},
		{ConsistentUnproven, "consistent-unproven", "a read without a version is answered without a proof, from a cache that is 5 ms behind", "reads without a version are consistent", "", ""},
		{ExactAtNewest, "exact-at-newest", "an exact version is answered with the newest state", "exact reads are of that revision", "", ""},
		{PageAtNewest, "page-at-newest", "a list is continued in the newest state", pages, "the pages are of", ""},
		{PageOverlaps, "page-overlaps", "a page begins with the last object of the page before", states, "", ""},
		{LimitIgnored, "limit-ignored", "a list has more objects than its limit", pages, "a page has", ""},
		{RemainingWrong, "remaining-wrong", "remainingItemCount counts one object too many", pages, "behind page", ""},
		{IndexOld, "index-old", "an index is not told of one change in seven", states, "", ""},
		{MemoOld, "memo-old", "the bytes of an object's former version are sent for the new one", states, "", ""},
		{GapUntold, "gap-untold", "the cache goes on behind a gap: it is never told what etcd has forgotten", watches, "complete", "fall behind"},
	}
}
