// Package list is the command "bench list": it measures what LIST and GET requests
// cost a server.
//
// Its catalogue has two kinds of entries. A workloadSpec is a request that package load
// measures with concurrent clients. A section measures the server's memory: during concurrent LISTs
// with slow readers, at rest before and after LISTs, or while half of the readers are slow.
//
// With --compare each server is a fresh process over data of package fill. All workloads share the
// process, each section has another. With --cold each workload has a process of its own. With --at the
// package measures the server of a kubeconfig.
package list
