// Package upstream is the door to the API server behind a replica: who asks it, with which
// credentials, and what is known of it.
//
//	client ─► Stash ─► filters ─► … ─► Proxy ─┬─ plain ──────► a user's own token
//	          keeps      Authenticator        ├─ strangers ──► no credentials, or unknown ones
//	          credentials                     ├─ front ──────► a front proxy's certificate
//	                                          └─ own ────────► impersonation
//
// The Proxy keeps a user's own bearer token. A certificate cannot be handed on, so its
// user is named to the upstream by a front proxy's headers or by impersonation, whichever
// the upstream trusts the replica with. Whom the Authenticator cannot tell is a stranger, and
// shares no connection with users.
//
// The caller wires Stash and Authenticator into Kubernetes' filters (kube.ReplicaConfig).
package upstream
