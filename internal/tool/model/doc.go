// Package model computes what a cluster of any size costs its API servers, replicas and etcd, and
// what breaks first. It compares kube-apiserver's read path, Millrace's, and a tree of replicas in
// front of either.
//
// A Constant is one input of the model, such as the CPU of an event to a watcher. Derive
// computes the constants from the reports below docs/bench, and constants.json has the constants of
// this repository. Each constant says whether it is measured, derived from measured numbers, or
// assumed. The read load of a node comes from the profiles that millrace-lab hollow runs
// (internal/tool/agentprofile).
//
// Demands are sums, which Usage has for each group of processes. Latencies come from a
// simulation of the tree (internal/tool/model/simulation). Compare compares both with
// measurements: docs/scale.md.
//
// The package measures nothing, and talks to no server.
package model
