// Package share asks the upstream once for equal reads that are passed on at the same time.
//
// An answer of the upstream whose question began after a client's request arrived is right for
// that client too. So while one request is under way, later equal requests gather, and the
// next request to the upstream is made for all of them. At any load, one shared question for
// equal requests is under way at a time.
//
//	client ──► nothing under way for the URL ──────────────► asked, streamed as it comes
//	       ──► gathers until that is over ──► alone ───────► asked, streamed as it comes
//	                                      └─► with others ─► one is asked for all, each is sent it as it comes
//
// Who may share. Each client's own right was decided before, as for answers of the read tier. The
// question goes out in the name of one of the clients. So no answer is given away that its reader
// could not have asked for, and nothing is asked with more rights than its client has. Answers
// other than 200 and 404 may be for the one user alone: then each other reader asks for itself.
//
// What may be shared. GET and LIST of resources that the tier may answer, whose answers depend
// on what keyOf reads and on nothing else of the request. A request with a header that is not
// known is never shared.
//
// What is shared is held in memory until the slowest of its readers has it. maxHeld bounds the
// bytes of all answers together. If an answer would exceed the bound, each reader that has not
// begun to read it asks for itself. A reader that has begun gets an answer that is cut short.
package share
