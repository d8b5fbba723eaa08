// Package floor measures the least that Go's HTTP server costs for the bytes that an API server
// has sent. Reports compare servers with this floor.
//
// Start runs the command of NewCommand, "bench floor-server", as a child process.
// That floor server holds response bodies in memory, and writes them in large pieces over TLS.
// For watches it broadcasts one event, when an Emitter requests it. A stream of WatchPath has a
// handler of its own. For the streams of RecordsPath one goroutine writes a TLS record to each
// connection, one after the other.
//
// The caller first stores what to send: files with bodies, or an event by WriteWatchEvent. The
// floor server decodes nothing, checks no credentials and is not an API server.
package floor
