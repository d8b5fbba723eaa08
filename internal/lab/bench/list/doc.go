// Package list is the command "bench list": it measures what LIST and GET requests
// cost a server.
//
// Its catalogue has two kinds of entries. A workloadSpec is a request that package load
// measures with some clients. A section measures memory: of concurrent LISTs with slow readers,
// of a server at rest, and of LISTs of which half stall.
//
// With --compare each server, and each section, is measured in a fresh process over data that
// "fill" has made. With --at the package measures the server of a kubeconfig.
package list
