// Package watch finds, for each change of a resource, the watches that it
// concerns, and lets them read what they have not seen yet.
//
// A Hub follows the log of one resource. Watches with the same scope and
// selector share a subscription: the places in the log of the events that it
// selects. A watch is a Cursor in it: Next gives the events that are there and
// never waits; with none left, the cursor's wake function is called when that
// changes. A cursor has no goroutine and copies no events, so that a request's
// goroutine can drive one, and a connection's writer many.
//
// The package knows nothing of encodings and requests; packages encode and read
// do.
package watch
