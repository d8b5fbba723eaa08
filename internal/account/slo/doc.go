// Package slo measures the span of each event of a watch. The span is from the event's arrival
// at this server until the last of its bytes is in the client's connection. The package
// compares spans with the objectives of --watch-slo, and says which resources miss theirs
// (docs/slo.md). It also keeps accounts of the feeds, and of the probe, a Lease that the
// server writes and watches (--watch-probe).
//
// An objective is the time that 99 of 100 spans may take. A span is divided into stages by what
// the event waited for. So a report can say whether this server, a client or the network makes
// events late.
//
// The caller makes one set with NewWatches, and runs Watches.Run, which measures the process. For
// each watch it calls:
//
//	Watches.Open ─► AddWithoutSpan ─► SetSendAccount ─► Queue ─► Placed ─► Write.Written ─► Close
//	                for initial                         for each event and each write
//	                events
//
// Between writes, AddWithoutSpan counts ordinary bookmarks and the end of the stream as well.
//
// Reports are Watches.SLO, Watchers and Feed. Metrics are made by a Collector. The types of the
// reports are in package serverreport. Package usage is for GETs and LISTs.
package slo
