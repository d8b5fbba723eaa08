// Package hollow runs hollow nodes with their read load against an API server. A hollow node
// has a kubelet that keeps a lease, reports its status and runs pods to Ready, a kube-proxy,
// and agents that profiles describe. It is the command "hollow".
//
//	Config ── Run ──▶ fleet ──┬─▶ node: registers, renews its lease, runs pods
//	                          └─▶ instance: one agent on one node
//	                                └─▶ reflector: one read of it ── watchclient.Client ──▶ server
//
// No container runs. What a node reads is counted and thrown away, except its own pods. A
// reflector has no goroutine: timers call it, and the goroutine that reads its connection. So
// a thousand nodes with four programs each fit beside the server on a laptop.
//
// All objects that a run makes carry the label Label. Remove removes them, also after a run
// that was killed.
//
// The package is not for measuring a server, which millrace-lab bench does, and not for
// checking it, which millrace-tools verify does.
package hollow
