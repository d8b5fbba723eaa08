// Package model says on paper what a cluster of any size costs its API servers, replicas and
// etcd, with kube-apiserver's read path, with Millrace's, and with a tree of replicas in front
// of either; and what breaks first.
//
// Constants are the prices of one thing: an event to a watcher, a watch in memory. They come
// from the reports below docs/bench (Derive), and constants.json has those of this repository.
// Each says whether it is measured, derived from measured ones, or assumed. The read load of a
// node is that of the profiles that millrace-lab hollow runs (internal/tool/agentprofile).
//
// Demands are sums, which Usage has for each group of processes. Latencies come from a
// simulation of the tree (internal/tool/model/simulation). Compare sets both against what was
// measured: docs/scale.md.
//
// The package is not for measuring, and talks to no server.
package model
