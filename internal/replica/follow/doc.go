// Package follow has the resources that a replica follows by its upstream's API. It decides which, in
// which version and by which feed, and what becomes of their readers when that ends.
//
//	reads ──► Policy ──may it be answered, in which version──► Resources ──► FollowedResource ─► feed
//	             ▲                                                              │
//	             └── definitions, APIServices, the upstream's version           └──► cache
//
// A FollowedResource is one resource. Everything else (reads, open watches, checkpoints, metrics) is a
// function of its State:
//
//	absent ─► loading ─► following ◄─► doubtful
//	  ▲          │           │            │
//	  │          ▼           ▼            ▼
//	  └────── refused ◄──────┴───────── stale
//
//	state      reads                           open watches       checkpoints
//	absent     passed on; the first follows    end                removed
//	loading    passed on                       go on, then end    kept
//	following  answered                        go on              written
//	doubtful   answered, or passed on without  go on              kept
//	           a proof
//	stale      answered at a version, with     go on              kept
//	           the header that says so
//	refused    passed on untouched             end                removed
//
// A resource becomes absent when it is unread for long, its definition is gone or changes, or
// another server takes its group version over. It becomes doubtful when its feed breaks, and
// stale when the whole upstream is away. A feed that breaks alone, while the upstream answers
// others, ends as refused.
package follow
