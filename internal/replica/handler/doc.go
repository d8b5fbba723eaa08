// Package handler decides what a replica answers by itself, and passes everything else on to
// the upstream.
//
//	request ─► filters ─► Handler ─┬─► read tier ─┬─► answer from bytes
//	                               ├─► Documents ─┤
//	                               └──────────────┴─► Proxy ─► upstream
//
// The Handler answers only reads of users that the upstream knows and whose right the
// upstream has confirmed, or its RBAC objects (right.Rights). All other requests go to the
// upstream as they came: it refuses them itself, in its own words.
package handler
