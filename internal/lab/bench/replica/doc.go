// Package replica is the commands "bench replica" and "bench tree". Both measure what a fleet of
// informers costs an API server. The fleet reads at the server itself, at a replica, or at replicas
// of replicas.
//
//	writer ── writes at a rate, each with its time ──► upstream ◄── etcd
//	                                                      │  │
//	                                   direct ┌───────────┘  └─ watches ─► replica
//	                                          ▼                               │
//	                        fleet: clients with an informer of        ◄───────┘
//	                        each of ten resources on one connection
//
// A setup is a way between the writes and the fleet. Each setup gets servers of its own over the same
// etcd. Writes always go to the upstream. Objects carry the time of their last write, and the client
// that receives the event reads the same clock.
//
// The fleet has one goroutine for each connection, because it shares the machine with the servers. It
// checks that each informer receives each event once. The fleet decodes nothing and keeps no objects:
// it is not an informer for programs.
package replica
