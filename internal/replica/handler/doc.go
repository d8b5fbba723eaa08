// Package handler decides what a replica answers by itself, and passes everything else on to
// the upstream.
//
//	request ─► filters ─► Handler ─┬─► read tier ─┬─► answer from bytes
//	                               ├─► Documents ─┤
//	                               ├──────────────┴─► Proxy ─► upstream
//	                               └─► refusal
//
// The Handler answers only reads of users that the upstream knows and whose right the
// upstream has confirmed, or its RBAC objects (right.Rights). It refuses writes with
// --reads-only, clients over budget, paths and certificates that cannot be passed on, and
// requests that must not reach the upstream before a restart. All other requests go to the
// upstream as they came: it decides about them, and answers in its own words.
package handler
