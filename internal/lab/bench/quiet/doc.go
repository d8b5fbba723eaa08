// Package quiet is the command "bench quiet": it measures reads without a resource version, of
// resources that nobody writes while other resources are written.
//
//	writer ── config maps, at a rate ──► upstream ◄── etcd
//	                                      ▲  ▲  ▲      │
//	             direct, proxy ───────────┘  │  └──── replica-etcd
//	                                   replica-api
//	                                         ▲
//	                                 replica-of-replica
//
// An API server does not report to a replica immediately that a quiet resource is unchanged. For a
// replica that is fed by its API, these reads are therefore the hardest to answer. All fronts run at
// the same time, and clients read at one front after the other. The proxy only passes reads on: no
// process between client and upstream can add less time on this machine.
//
// The package starts and ends all servers itself. It does not measure a server that exists, and does
// not check the content of answers.
package quiet
