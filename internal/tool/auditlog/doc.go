// Package auditlog reads audit logs of API servers (audit.k8s.io) at the speed of a disk and
// in constant memory, in whatever they are wrapped.
//
// The caller lists inputs with Expand, and reads their events with Read. ParseURI tells what a
// request asked for.
//
//	files, directories, stdin ─► unpack: gzip, zstd, UTF-16 ─► reader: records, lists, text
//	    ─► scanner: an event ─► caller                            │        ▲
//	                a list of records, a field with events ───────┘ again  │
//
// A record is a JSON object. Each is an event, has a list of records, has events in a field
// (wrappings says in which), or is something else, which Counts.Rest tells. Whatever cannot be
// read ends at the end of its line, or where the next event begins.
//
// Only the fields of Event are read. Everything else is skipped without being checked, so
// the package is not for validating logs.
package auditlog
