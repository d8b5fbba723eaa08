// Package slo measures the span of each event of a watch: from its arrival at this server until
// the last of its bytes is in the client's connection. It compares spans with the objectives of
// --watch-slo, and says whose they miss (docs/slo.md). It also keeps accounts of the feeds, and
// of the probe, a Lease that the server writes and watches (--watch-probe).
//
// Watches.Open makes the account of a watch, which Watch.Close ends. The Sender of a watch is
// told of its events by Queue, and by Sent when they are placed in a write.
//
// The types of its reports are in package serverreport. Package usage is for GETs and LISTs.
package slo
