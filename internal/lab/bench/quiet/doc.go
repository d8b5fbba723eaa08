// Package quiet is the command "bench quiet": it measures reads without a resource version, of
// resources that nobody writes while others are written.
//
//	writer ── config maps, at a rate ──► upstream ◄── etcd
//	                                      ▲  ▲  ▲      │
//	                    direct ───────────┘  │  └──── replica-etcd
//	                                   replica-api
//	                                         ▲
//	                                 replica-of-replica
//
// An API server does not tell a replica at once that a quiet resource is still as it was. So
// these are the reads that a replica fed by its API finds hardest to answer. All fronts run at
// the same time, and clients read at them in turn.
//
// The package starts and ends all servers itself. It is not for a server that exists, and
// checks no content of answers.
package quiet
