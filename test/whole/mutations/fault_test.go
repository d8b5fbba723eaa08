package mutations

import (
	"slices"

	"github.com/millrace/millrace/internal/tool/verify"
	"github.com/millrace/millrace/test/support/plantedfault"
)

const (
	copyFile      = "internal/wire/encode/copy_source.go"
	objectFile    = "internal/feed/etcdfeed/object.go"
	feedWatchFile = "internal/feed/etcdfeed/watch.go"
	cursorFile    = "internal/tier/watch/cursor.go"
	filterFile    = "internal/tier/watch/subscription.go"
	boundsFile    = "internal/tier/cache/bounds.go"
	applyFile     = "internal/tier/cache/apply.go"
	provenFile    = "internal/tier/cache/consistent.go"
	lookupFile    = "internal/tier/cache/index_lookup.go"
	advisorFile   = "internal/tier/cache/index_advisor.go"
	stateFile     = "internal/tier/cache/state.go"
	listFile      = "internal/tier/storage/list.go"
	startFile     = "internal/tier/storage/watch.go"
	freshFile     = "internal/tier/storage/freshness.go"
	sessionFile   = "internal/tier/read/watch.go"
	followFile    = "internal/tier/read/watch_follow.go"
)

// Lines that code is inserted before.
const (
	changesRead = "\tclear(work.events[:len(found)])\n"
	classLeft   = "\tcase was:\n\t\treturn deleted\n"
	snapshotSet = "\tl.snapshot, err = s.snapshot(exact, proven)\n"
)

// replace replaces a text of a file with code that can ask package armed.
func replace(file, old, code string) []plantedfault.Edit {
	return []plantedfault.Edit{plantedfault.ImportArmed(file), {File: file, Old: old, New: code}}
}

// insert inserts code before a text of a file.
func insert(file, before, code string) []plantedfault.Edit {
	return replace(file, before, code+before)
}

// rows are all mutations.
func rows() []row { return slices.Concat(ofEvents, ofWatches, ofReads) }

// ofEvents are mutations of what happens to an event.
var ofEvents = []row{
	{plantedfault.Fault{
		Name: "event-dropped", Breaks: "a watch is not told of one event in seven",
		Edits: replace(cursorFile, "e.Revision > c.after {", "e.Revision > c.after && !armed.EverySeventhCall() {"),
	}, verify.Watching, "complete"},
	{plantedfault.Fault{
		Name: "event-doubled", Breaks: "a watch is told of an event twice",
		Edits: insert(cursorFile, changesRead, `	if n := len(changes); n > 0 && armed.EverySeventhCall() {
		changes = append(changes, changes[n-1])
	}
`),
	}, verify.Watching, "unique"},
	{plantedfault.Fault{
		Name: "events-reordered", Breaks: "of events that a watch is told at once, the last two change places",
		Edits: insert(cursorFile, changesRead, `	if n := len(changes); n > 1 && armed.Active() {
		changes[n-1], changes[n-2] = changes[n-2], changes[n-1]
	}
`),
	}, verify.Watching, "ordered"},
	{plantedfault.Fault{
		Name: "event-lost", Breaks: "the cache is never told of an acknowledged write",
		Edits: insert(objectFile, "\tobjects := make([]feed.Object, len(events))\n", `	if last := len(events) - 1; armed.EverySeventhCall() && events[last].Kv.Version > 3 {
		events = events[:last]
	}
`),
	}, verify.Watching, "complete"},
	{plantedfault.Fault{
		Name: "deletion-untold", Breaks: "no watch is told of a deletion",
		Edits: insert(filterFile, classLeft, "\tcase was && e.Entry == nil && armed.Active():\n\t\treturn unrelated\n"),
	}, verify.Kept, ""},
	{plantedfault.Fault{
		Name: "deletion-old", Breaks: "DELETED has the revision of the last version, not that of the deletion",
		Edits: replace(cursorFile, "\t\tshown = e.Previous\n", `		shown = e.Previous
		if armed.Active() {
			return encode.Change{Frames: e.Frames, Kind: class.eventType(), Entry: shown, Revision: shown.Revision, Arrival: e.Arrival}
		}
`),
	}, verify.OneHistory, ""},
	{plantedfault.Fault{
		Name: "leave-modified", Breaks: "an object that a selector no longer selects is MODIFIED, not DELETED",
		Edits: insert(filterFile, classLeft, "\tcase was && e.Entry != nil && armed.Active():\n\t\treturn modified\n"),
	}, verify.Watching, "transitions"},
	{plantedfault.Fault{
		Name: "leave-untold", Breaks: "a watch is not told that its selector no longer selects an object",
		Edits: insert(filterFile, classLeft, "\tcase was && e.Entry != nil && armed.Active():\n\t\treturn unrelated\n"),
	}, verify.Watching, "complete"},
	{plantedfault.Fault{
		Name: "feed-frozen", Breaks: "the server ceases to follow etcd, and goes on",
		Edits: insert(feedWatchFile, "\tcase len(resp.Events) > 0:\n", "\tcase armed.Calls() > 60:\n"),
	}, verify.Shown, ""},
	{plantedfault.Fault{
		Name: "progress-early", Breaks: "the cache says that it has events which it is only about to apply",
		Edits: insert(applyFile, "\tfor r, changes := range c.prepareLocked(ctx, events, c.ownerOf) {\n", `	if armed.Active() {
		c.advanceLocked(newest)
		time.Sleep(5 * time.Millisecond)
	}
`),
	}, verify.States, ""},
	{plantedfault.Fault{
		Name: "index-old", Breaks: "an index is not told of one change in seven",
		Edits: slices.Concat(
			replace(stateFile, "\t\treindex(index, previous, ch.entry)\n", "\t\tif !armed.EverySeventhCall() {\n\t\t\treindex(index, previous, ch.entry)\n\t\t}\n"),
			replace(lookupFile, "\treturn candidates*indexLookupCost < walked\n", "\treturn candidates*indexLookupCost < walked || armed.Active()\n"),
			replace(advisorFile, "\tif a == nil || entries < a.minEntries || q.Limit > 0 && q.Limit < a.minEntries {\n",
				"\tif a == nil || !armed.Active() && (entries < a.minEntries || q.Limit > 0 && q.Limit < a.minEntries) {\n"),
		),
	}, verify.States, ""},
	{plantedfault.Fault{
		Name: "memo-old", Breaks: "the bytes of an object's former version are sent for the new one",
		Edits: replace(copyFile, "s.entries[s.next] != e {", "s.entries[s.next] != e && !(armed.Active() && s.entries[s.next].Key == e.Key) {"),
	}, verify.States, ""},
}

// ofWatches are mutations of where watches begin and end, and of their bookmarks.
var ofWatches = []row{
	{plantedfault.Fault{
		Name: "resume-short", Breaks: "a watch that resumes misses the first event",
		Edits: insert(cursorFile, "\tif at < h.mu.opaqueEnd {\n", "\tif armed.Active() && at < h.mu.end {\n\t\tat++\n\t}\n"),
	}, verify.Watching, "complete"},
	{plantedfault.Fault{
		Name: "resume-doubled", Breaks: "a watch is told of events from before the version that it resumes from, or from before its initial state",
		Edits: insert(cursorFile, "\tat, _, err := h.log.Since(after)\n", "\tif armed.Active() {\n\t\tafter -= 3\n\t}\n"),
	}, verify.Watching, "unique"},
	{plantedfault.Fault{
		Name: "expiry-untold", Breaks: "a short history forgets events and does not answer 410 to clients that need them",
		Edits: append(
			replace(boundsFile, "\t\tl.mu.completeAfter = e.Revision\n", "\t\tif !armed.Active() {\n\t\t\tl.mu.completeAfter = e.Revision\n\t\t}\n"),
			plantedfault.Edit{File: boundsFile, Old: "\tcase l.mu.bytes > b.maxBytes:\n", New: "\tcase l.mu.bytes > b.maxBytes, armed.Active() && len(l.mu.events)-i > 20:\n"},
		),
	}, verify.Watching, "complete"},
	{plantedfault.Fault{
		Name: "bookmark-ahead", Breaks: "a bookmark has a revision of which not all events were sent",
		Edits: insert(followFile, "\t\t\tif err := s.bookmark(to, false); err != nil {\n", "\t\t\tif armed.Active() {\n\t\t\t\tto += 3\n\t\t\t}\n"),
	}, verify.Watching, "bookmarks"},
	{plantedfault.Fault{
		Name: "bookmark-unasked", Breaks: "bookmarks come to clients that did not allow them",
		Edits: replace(sessionFile, "s.query.timeout(), s.query.options.AllowWatchBookmarks)", "s.query.timeout(), s.query.options.AllowWatchBookmarks || armed.Active())"),
	}, verify.Watching, "bookmarks"},
	{plantedfault.Fault{
		Name: "initial-end-early", Breaks: "initial events are said to end before the first one",
		Edits: insert(followFile, "\terr := s.encodingFailed(s.out.Initial(s.initial.Runs))\n", `	if armed.Active() && s.query.options.AllowWatchBookmarks {
		_ = s.bookmark(s.startPoint.After, true)
	}
`),
	}, verify.Watching, "initial end"},
	{plantedfault.Fault{
		Name: "initial-end-old", Breaks: "the end of initial events has an older revision than they have",
		Edits: replace(followFile, "\t\tif err := s.bookmark(s.startPoint.After, true); err != nil {\n", `		end := s.startPoint.After
		if armed.Active() {
			end -= 10
		}
		if err := s.bookmark(end, true); err != nil {
`),
	}, verify.Watching, "initial"},
	{plantedfault.Fault{
		Name: "watch-begins-old", Breaks: "a watch without a version begins with a state of 20 revisions ago",
		Edits: insert(startFile, "\tif withInitial || rv == 0 {\n", `	if armed.Active() && opts.ResourceVersion == "" {
		if old, err := s.cfg.Resource.At(snapshot.Revision - 20); err == nil {
			snapshot = old
		}
	}
`),
	}, verify.Fresh, ""},
}

// ofReads are mutations of GET and LIST.
var ofReads = []row{
	{plantedfault.Fault{
		Name: "list-ahead", Breaks: "a list has a newer version than its objects",
		Edits: replace(listFile, "Revision: l.snapshot.Revision}\n", "Revision: l.snapshot.Revision}\n\tif armed.Active() {\n\t\tresult.Revision += 2\n\t}\n"),
	}, verify.States, ""},
	{plantedfault.Fault{
		Name: "version-not-awaited", Breaks: "a read of version N is answered before the cache has reached it",
		Edits: replace(freshFile, "\tif s.hasRevision(rv) {\n\t\treturn nil\n\t}\n\tif s.cfg.PassOnAfter > 0 {\n", "\tif s.hasRevision(rv) || armed.Active() {\n\t\treturn nil\n\t}\n\tif s.cfg.PassOnAfter > 0 {\n"),
	}, verify.NotOlder, ""},
	{plantedfault.Fault{
		Name: "future-expired", Breaks: "a version that does not exist yet is called expired",
		Edits: insert(freshFile, "\treturn storage.NewTooLargeResourceVersionError(rv, uint64(progress.Revision()), retrySeconds)\n",
			"\tif armed.Active() {\n\t\treturn expired(revision, progress.Revision())\n\t}\n"),
	}, verify.Answers, ""},
	{plantedfault.Fault{
		Name: "consistent-unproven", Breaks: "a read without a version is answered without a proof, from a cache that is 5 ms behind",
		Edits: append(
			insert(provenFile, "\tctx, cancel := context.WithTimeout(ctx, c.timeout)\n\tdefer cancel()\n\trevision, err := c.newest", "\tif armed.Active() {\n\t\treturn c.progress.Revision(), nil\n\t}\n"),
			insert(feedWatchFile, "\tswitch {\n\tcase len(resp.Events) > 0:\n", "\tif armed.Active() {\n\t\ttime.Sleep(5 * time.Millisecond)\n\t}\n")...,
		),
	}, verify.Consistent, ""},
	{plantedfault.Fault{
		Name: "exact-at-newest", Breaks: "an exact version is answered with the newest state",
		Edits: insert(listFile, snapshotSet, "\tif armed.Active() && opts.Predicate.Continue == \"\" {\n\t\texact = 0\n\t}\n"),
	}, verify.Exact, ""},
	{plantedfault.Fault{
		Name: "page-at-newest", Breaks: "a list is continued in the newest state",
		Edits: insert(listFile, snapshotSet, "\tif armed.Active() && opts.Predicate.Continue != \"\" {\n\t\texact = 0\n\t}\n"),
	}, verify.Pages, "the pages are of"},
	{plantedfault.Fault{
		Name: "page-overlaps", Breaks: "a page begins with the last object of the page before",
		Edits: insert(listFile, "\tl.query = cache.Query{", "\tif armed.Active() {\n\t\tfrom = strings.TrimSuffix(from, \"\\x00\")\n\t}\n"),
	}, verify.States, ""},
	{plantedfault.Fault{
		Name: "limit-ignored", Breaks: "a list has more objects than its limit",
		Edits: replace(listFile, `if opts.ResourceVersion == "0" && !s.cfg.LikeEtcd {`, `if opts.ResourceVersion == "0" && !s.cfg.LikeEtcd || armed.Active() {`),
	}, verify.Pages, "a page has"},
	{plantedfault.Fault{
		Name: "remaining-wrong", Breaks: "remainingItemCount counts one object too many",
		Edits: insert(listFile, "\t\tresult.Continue, result.Remaining, err = s.token(l, last, opts)\n", "\t\tif armed.Active() {\n\t\t\tlast.total++\n\t\t}\n"),
	}, verify.Pages, "after page"},
}
