// Package counterpart compares functions of Kubernetes between versions. Some functions of this
// module replace or follow one of Kubernetes, their counterpart. Such a function has a mark in
// its comment:
//
//	// Upstream: k8s.io/apiserver/pkg/endpoints/filters.WithAudit; compare at each upgrade.
//
// The package reads the source of each counterpart in the module cache. counterparts.tsv has
// the digest of the source with which somebody compared our function last. So a test reports
// the functions of ours that an upgrade of Kubernetes concerns.
//
//	comments ──ReadMarks──► Marks ─┐
//	                               ├─ NewTable ─► counterparts.tsv ── Check ─► test failures
//	go.mod ──► Modules ─► Find ────┤
//	FROM, TO ─► Modules ─► Find ───┴─ Compare ──► unified diffs
//
// `make upstream-diff` prints what changed between two versions of Kubernetes. `make
// upstream-accept` rewrites the table, so that the test passes: first make our functions
// follow the changes.
//
// Feature gates are the other part of an upgrade. CheckGates compares the table in
// docs/design/feature-gates.md with the gates that Kubernetes has, and with the code of
// Kubernetes and of this module that consults them.
//
// The package compares source and nothing else. A function may behave differently because a
// function that it calls has changed; the differential tests find that. No other package
// imports this one.
package counterpart
