// Package hollow runs hollow nodes with their read load against an API server: kubelets
// that keep leases, report their status and run pods to Ready, kube-proxies, and agents
// that are described by profiles. It is the command "hollow".
//
//	Config ── Run ──▶ fleet ──┬─▶ node: registers, renews its lease, runs pods
//	                          └─▶ instance: one agent on one node
//	                                └─▶ reflector: one read of it ── watchclient.Client ──▶ server
//
// No container runs. What a node reads is counted and thrown away, except its own pods. A
// reflector has no goroutine: the goroutine that reads its connection calls it, and timers
// do. So a thousand nodes with four programs each fit beside the server on a laptop.
//
// All objects that a run makes carry the label Label. A run with Config.Delete removes them,
// also those of a run that was killed.
//
// The package is not for measuring a server, which millrace-lab bench does, and not for
// checking it, which millrace-tools verify does.
package hollow
