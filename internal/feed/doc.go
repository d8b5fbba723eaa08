// Package feed defines the contract between a source of objects and what holds them. A feed
// reads a source, and writes to a Sink, which is a cache. The source is etcd (package etcdfeed)
// or one resource of an API server (apifeed). Package feedtest checks that they keep the
// contract.
//
//	          a checkpoint or another replica, in place of the first load
//	                                   │
//	           ┌───────────────────────┴──────────────────────┐
//	source ───►│ load      all objects, at one revision       │──► Sink.BeginLoad, Loader.Add, End
//	           │ events    each later change once, in         │
//	           │           the order of the revisions         │──► Sink.Apply
//	           │ progress  nothing else has changed up to R   │──► Sink.Progressed
//	           ├──────────────────────────────────────────────┤
//	readers ──►│ Revision  the source's newest, as a proof    │
//	           │ RequestProgress                              │
//	           │ Healthy, BrokenSince                         │
//	           └──────────────────────────────────────────────┘
//
// What holds of every feed:
//
//   - State. A load is the exact state at the revision of its End. Nothing of a load counts
//     before End, and a load that fails has no End. Keys come in ascending order.
//   - Order. After a load at R come the changes after R, each once, none left out and none
//     in another order. A break of the connection does not show.
//   - Deletion. It has the object's key and the revision of the deletion, and no value: a sink
//     knows the version before.
//   - Progress. Progressed(R) says that the sink has all changes up to R. Applied revisions
//     never fall, but by a load of another history (ErrDoubt).
//   - Proof. Revision returns a revision that is at or above every write that was acknowledged
//     before the call, and only while the source is known to have the history that the sink
//     has. A sink that has reached it is as new as the source was.
//   - Health. A feed is healthy while it follows: its watch is open, or has ended in order and
//     is being opened again, and the sink has reached the revision of Expect. It is not healthy
//     before, and not from a break until it follows again. BrokenSince tells a break from a
//     feed that never was healthy.
//   - History. If the source has forgotten the changes after the sink's revision, the feed loads
//     again, at that revision or a later one. Its sink tells the readers of events.
//
// A feed ends for two reasons only. The context has ended, and Run returns its error. Or it is
// proven that the source has another history, what the sink holds means nothing, and Run
// returns an error that wraps ErrWentBack. All else is retried, and Healthy says why:
// ErrDoubt, ErrRefused, or what the source has said.
//
//	Run ──► load ──► follow ──► context ended: its error
//	         ▲ │       │ │
//	         └─┘       │ └────► another history, proven: ErrWentBack
//	        error      │
//	         ▲         ├─ broken, silent, refused: follow from the applied revision
//	         └─────────┴─ history forgotten, or that of one resource is another: ErrDoubt
//
// The package knows nothing of etcd's client and of HTTP, and decodes no objects.
package feed
