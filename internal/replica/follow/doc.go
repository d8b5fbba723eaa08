// Package follow has the resources that a replica follows by its upstream's API. It decides
// which, in which version and by which feed, and what becomes of their readers when that ends.
//
//	reads ──► Policy ──may it be answered, in which version──► Resources ──► FollowedResource ─► feed
//	             ▲                                                              │
//	             └── definitions, APIServices, the upstream's version           └──► cache
//
// A FollowedResource is one resource in one form. What becomes of its reads, open watches and
// checkpoints follows from its State:
//
//	absent ◄─► loading ─► following ◄─► doubtful ◄─► stale
//	  ▲           │           │            │           │
//	  │           ▼           ▼            ▼           ▼
//	  └──────────────────── refused ◄──────────────────┘
//
//	state      reads                           open watches       checkpoints
//	absent     passed on; the first follows    end                removed, unless what is
//	                                                              served has changed
//	loading    passed on                       go on, then end    kept
//	following  answered                        go on              written
//	doubtful   answered, or passed on without  go on              kept
//	           a proof
//	stale      as doubtful, and the upstream   go on              kept
//	           does not answer
//	refused    passed on untouched             end                removed
//
// From every state a resource becomes absent when it is unread for long, or its definition is
// gone or changes. It also does so when another server takes its group version over. It
// becomes doubtful when its feed breaks, and stale while all feeds are broken.
//
// A feed that stays broken alone, while the upstream answers others, ends as refused. So does a
// resource that the upstream refuses, or for which there is no memory. Custom resources end so
// while the feed of definitions is broken alone. Resources that the replica itself needs are not
// given up.
//
// In the states doubtful and stale, answers have the header X-Millrace-Cut-Off-Since if the
// feed has followed before.
package follow
