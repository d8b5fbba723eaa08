// Package watch finds the watches that a change of a resource concerns, and lets them
// read the events that they have not seen yet.
//
//	cache.Log ──Appended──► Hub ──subscriptionIndex──► subscription: matches
//	    ▲                    │                            ▲    ▲
//	    │                    └──LogUnlocked wakes────┐    │    │
//	    │                                            ▼    │    │
//	    └─────────events of the matches────────── Cursor ─┘  Cursor ...
//
// A Hub follows the log of one resource. Watches with the same scope and selectors share
// a subscription: the positions, in the log, of the events that it selects. A watch is a
// Cursor of a subscription. Its Next returns events that are there and never waits. After
// a Next that left nothing, the cursor's wake function is called when there is more to read,
// or when the watch is lost.
//
// A cursor has no goroutine and keeps no events. The goroutine of a request can drive
// one, and the writer of a connection many. The caller closes each cursor that it opens.
//
// The package knows nothing of encodings and requests. Packages encode and read do.
package watch
