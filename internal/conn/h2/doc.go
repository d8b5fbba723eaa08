// Package h2 is the server side of HTTP/2 (RFC 9113), made for thousands of long streams
// on few connections. Server.Configure puts it in the place of Go's own HTTP/2 server.
// Handlers see the same requests and the same http.ResponseWriter, and clients see the
// same answers. HTTP/1.1 stays with package net/http.
//
// The difference is how bytes leave. Go's server passes each frame between goroutines and
// writes it by itself. Here, a worker (package pull) takes a connection that has
// something to send. It gathers frames of all streams in one buffer, and writes them at
// once.
//
// If nothing else is to be sent, a handler writes the end of its answer itself, which saves
// waking a worker. A handler of a long stream gives the stream to the workers with Pull. An
// event then wakes no goroutine of its own, and events of thousands of streams leave in a few
// writes.
//
//	handler: Write, Flush, return ──► stream: headers, chunks, end ─┐
//	Source: Wake ──► woken streams ──► Source.Next ──► chunks ──────┤
//	reader: acknowledgements, window updates, resets ───────────────┤
//	                                                   worker ◄─────┘
//	                                                      │ one buffer, one write
//	                                                      ▼
//	                                                  connection
//
// Streams take turns: none puts more than one frame of 16 KiB in a buffer while another
// waits. So a large download delays a watch by one buffer at most.
//
// Apart from its handlers, a connection has one goroutine, the reader. The reader itself
// runs the handlers of requests that Config.Inline accepts. A connection holds no write
// buffer while it has nothing to write, and one while its client does not read.
//
// A window is a flow-control window of HTTP/2 in this package.
//
// The price is that all streams of a connection share one lock, conn.mu. It is not held
// while bytes are written or a Source is asked.
//
// Server push, priorities, extended CONNECT, HTTP/2 without TLS and keepalive pings are not
// offered. Go's server lacks them too, or an API server has no use for them.
package h2
