// Package h1 sends long streams over HTTP/1.1 (RFC 9112), as package h2 does over HTTP/2.
// A worker (package pull) asks the stream's source and writes a chunk to the connection.
// The handler's goroutine only waits for the end. Compared with a goroutine that writes
// each event, that takes a third off the cost of an event.
//
//	Source: Wake ──► worker: Source.Next ──► one chunk ──► connection
//	handler: Pull waits ◄── end, error, or context
//
// Configure prepares a server, New makes the Puller for a response. Everything else about
// HTTP/1.1 is package net/http's, including the head of such a response and its last
// chunk. Only one stream uses a connection at a time, so streams need not
// alternate, and there are no windows.
package h1
