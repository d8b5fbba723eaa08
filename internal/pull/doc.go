// Package pull is how long streams are sent without a goroutine that waits for each:
// a Source gives the bytes when it is asked, a Puller asks it, and workers write for
// the connections that have something to send.
//
//	Wake ──► connections with something to send ──► Worker ──► Source.Next ──► one buffer, one write
//
// Package h2 has the Puller of HTTP/2, package h1 that of HTTP/1.1.
package pull
