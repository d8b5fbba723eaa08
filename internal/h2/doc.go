// Package h2 is the server side of HTTP/2 (RFC 9113) for servers with thousands
// of long streams on few connections. Server.Configure puts it in the place of
// Go's own: handlers see the same requests and the same http.ResponseWriter, and
// clients the same answers. HTTP/1.1 stays with package net/http.
//
// What differs is how bytes leave. A worker (package pull) takes a connection that
// has something to send, gathers the frames of all of its streams into one buffer
// and writes it at once. A handler whose connection is quiet writes the end of its
// answer itself. A handler of a long stream hands it to the workers for good with
// Pull: an event then costs no goroutine of its own, and what thousands of
// streams send at the same time goes out in a few writes.
//
//	handler: Write, Flush, return ──► stream: headers, segments, end ─┐
//	Source: Wake ──► woken streams ──► Source.Next ──► segments ──────┤
//	reader: acknowledgements, window updates, resets ─────────────────┤
//	                                                     worker ◄─────┘
//	                                                        │ one buffer, one write
//	                                                        ▼
//	                                                    connection
//
// Streams take turns: none puts more than one frame of 16 KiB in a buffer while
// another waits, so a large download delays a watch by a buffer at most.
//
// A connection has one goroutine, the reader, besides its handlers; those of requests
// that are said to be prompt it runs itself. It holds no write buffer while it has
// nothing to write, and one while its client does not read.
//
// Not offered, as with Go's server or because an API server has no use for it:
// server push, priorities, extended CONNECT, HTTP/2 without TLS, keepalive pings.
package h2
