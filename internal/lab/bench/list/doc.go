// Package list is the command "bench list": it measures what LIST and GET requests
// cost a server.
//
// Its catalogue has two kinds of entries. A spec is a request that load measures
// with some clients. A section measures memory: of concurrent LISTs with slow
// readers, of a server at rest, and of LISTs of which half stall.
//
// With --compare each server, and each section, is measured in a fresh process over
// data that "fill" has made. Otherwise the server of a kubeconfig is measured.
package list
