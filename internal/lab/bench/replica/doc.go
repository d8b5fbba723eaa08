// Package replica is the commands "bench replica" and "bench tree": they measure what a
// fleet of informers costs an API server when it reads there, and when it reads at a replica
// in between, or at replicas of replicas.
//
//	writer ── writes at a rate, each with its time ──► upstream ◄── etcd
//	                                                      │  │
//	                                   direct ┌───────────┘  └─ watches ─► replica
//	                                          ▼                               │
//	                        fleet: clients with an informer of        ◄───────┘
//	                        each of ten resources on one connection
//
// Each setup, which is a way between the fleet and the writes, gets servers of its own over
// the same etcd. Writes go to the upstream in all of them. A time in the object is that of
// the write, and the client that receives the event reads the same clock.
//
// The fleet has one goroutine for each connection, because it shares the machine with what it
// measures. It checks that each informer receives each
// event once. It is no informer for programs: it decodes nothing and keeps no objects.
package replica
