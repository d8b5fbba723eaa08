// Package counterpart watches the functions of Kubernetes that functions of this module
// stand beside. Such a function of ours has a mark in its comment:
//
//	// Upstream: k8s.io/apiserver/pkg/endpoints/filters.WithAudit; compare at each upgrade.
//
// The package reads the source of each marked declaration in the module cache. A digest
// of it stands in counterparts.tsv from the last time that somebody compared the two. So
// a test can tell which of our functions an upgrade of Kubernetes concerns.
//
//	comments ──ReadMarks──► Marks ─┐
//	                               ├─ NewTable ─► counterparts.tsv ── Check ─► test failures
//	go.mod ──► Modules ─► Find ────┤
//	FROM, TO ─► Modules ─► Find ───┴─ Compare ──► unified diffs
//
// `make upstream-diff` prints what changed between two versions of Kubernetes, and `make
// upstream-accept` writes the table anew. Run the second only after our functions follow the
// changes: it makes the test pass.
//
// Feature gates are the other part of an upgrade. CheckGates compares the table in
// docs/design/feature-gates.md with the gates that Kubernetes has, and with the code of
// both that consults them.
//
// The package compares source and nothing else. A function may behave differently
// because a function that it calls has changed; the differential tests are for that. It
// stands apart from the server: no other package imports it.
package counterpart
