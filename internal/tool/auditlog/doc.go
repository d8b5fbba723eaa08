// Package auditlog reads audit logs of API servers (audit.k8s.io/v1, a JSON event on each
// line) at the speed of a disk and in constant memory.
//
// The caller lists inputs with Expand, reads their lines with Read, and takes the fields
// out of a line with Scanner.Scan. ParseURI tells what a request asked for.
//
//	files, gzip, directories, stdin ─► Read ─► lines ─► Scanner ─► Event ─► ParseURI
//
// Only the fields of Event are read. Everything else is skipped without being checked, so
// the package is not for validating logs.
package auditlog
