// Package h1 sends long streams over HTTP/1.1 (RFC 9112) as package h2 does over
// HTTP/2: a worker asks the stream's source and writes a chunk to the connection. A
// handler's goroutine waits for the end and for nothing else. All else about HTTP/1.1
// is package net/http's, also the head of such a response and its last chunk.
package h1
