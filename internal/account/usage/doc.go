// Package usage keeps accounts of GETs and LISTs: which clients send them, in which
// shapes, and at what cost. It gives advice on requests that could be cheaper, and
// detects and paces storms of relists.
//
// The caller announces each request with Accounts.Begin, gives it to Accounts.Observe when
// it has ended, and each LIST and WATCH to Accounts.Relist before it begins. What waits for
// a request's sake says so with AddWait.
//
//	Observe ─► by client, by shape (heavyHitters) ─► Report, with advice
//	        └► series by resource ─────────────────► Collector
//	Relist ──► stormDetector ─► pacer ─────────────► 0, or a wait in seconds
//
// Package slo is for events that watches are sent.
package usage
