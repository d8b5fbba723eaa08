// Package replica decides what a server in front of another API server, the upstream,
// answers by itself, and passes everything else on to the upstream.
//
//	request ─► Stash ─► filters ─► Handler ─┬─► read tier ─┬─► answer from bytes
//	           keeps      Authenticator     ├─► Documents ─┤
//	           credentials                  └──────────────┴─► Proxy ─► upstream
//
// The Handler answers only reads of users that the upstream knows and whose right the
// upstream has confirmed, or its RBAC objects (Rights). All other requests go to the
// upstream as they came: it refuses them itself, in its own words.
//
// The Proxy keeps a user's own bearer token. A certificate cannot be handed on, so its
// user is named to the upstream by a front proxy's headers or by impersonation, whichever
// the upstream trusts the replica with.
//
// Documents keep what the upstream answers to requests for discovery and OpenAPI.
//
// The caller wires Stash, Authenticator and Handler into Kubernetes' filters
// (kube.ReplicaConfig). The package follows nothing by itself.
package replica
