// Package auditlog reads audit logs of API servers (audit.k8s.io) at the speed of a disk and
// in constant memory, whatever wraps their events.
//
// The caller lists inputs with Expand, and reads their events with Read. ParseURI returns what a
// request asked for.
//
//	files, directories, stdin ─► unpack: gzip, zstd, UTF-16 ─► reader: records, lists, text
//	    ─► scanner: an event ─► caller                            │        ▲
//	                a list of records, a field with events ───────┘ again  │
//
// A record is a JSON object. Each is an event, has a list of records, has events in one of the
// wrapperFields, or is something else, which Counts.Rest counts. Text that cannot be read ends
// at the end of its line, or where the next event starts.
//
// The package reads only the fields of Event, and skips everything else without a check: it is
// not for validating logs.
package auditlog
