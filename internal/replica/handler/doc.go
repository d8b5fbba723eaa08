// Package handler decides which requests a replica answers by itself, which it refuses, and
// which it passes on to the upstream.
//
//	request ─► filters ─► Handler ─┬─► read tier ─┬─► answer from bytes
//	                               ├─► Documents ─┤
//	                               ├──────────────┴─► Proxy ─► upstream
//	                               └─► refusal
//
// The Handler answers only reads by users whom the upstream knows, if the upstream or its RBAC
// objects (right.Rights) have confirmed their right.
//
// It refuses writes with --reads-only, reads of clients over budget, and, while the replica
// restarts, requests that must not reach the upstream yet. The Proxy refuses paths and users
// of certificates that it cannot pass on, and unknown users beyond a bound. All other requests
// go to the upstream, which decides about them and answers in its own words.
package handler
