// Package pull sends long response bodies, such as watches, without a goroutine per
// stream that waits for bytes or for the client.
//
// A Source produces the bytes of one body when it is asked. A Puller is the response that
// asks it. A Worker is one of a few goroutines that write for all connections of the
// process.
//
//	Wake ──► connection queued ──► Worker ──► Source.Next ──► one buffer, one write
//	          (Task, by Do)
//
// A goroutine per connection would be simpler. But each write would then begin on a stack
// that has left the processor's caches. Workers keep a few stacks warm. With one
// connection per watch, that made an event a fifth cheaper over HTTP/2, and a third
// cheaper over HTTP/1.1.
//
// The price: a slow client must never hold up a worker. So a Conn notices when a write
// blocks, and another worker runs meanwhile.
//
// A server wraps its listener with NewListener. Package h2 has the Puller of HTTP/2,
// package h1 the Puller of HTTP/1.1. The package is not meant for short responses: their
// handlers write themselves.
package pull
