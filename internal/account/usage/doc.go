// Package usage keeps accounts of GETs and LISTs: which clients send them, in which
// shapes, and at what cost. It gives advice on requests that could be cheaper, and
// detects and paces storms of relists.
//
// For each request the caller calls, in this order:
//
//	Begin    when the request arrives
//	Relist   before a LIST or WATCH is answered: its client may have to come back later
//	AddWait  where code waits on behalf of the request, so that the wait is not charged as CPU
//	Observe  when a GET or LIST has ended
//
//	Observe ─► cpuScale ┬► by client, by shape (heavyHitters) ─► Report, with advice
//	                    ├► series by resource ─────────────────► Collector
//	                    └► Budgets ────────────────────────────► Overdraft
//	Relist ──► stormDetector ─► pacer ─────────────────────────► 0, or a wait in seconds
//
// Package slo is for the events of watches.
package usage
