// Package floor measures the least that Go's HTTP server costs for the bytes that
// an API server has sent. It is the line that servers are compared with.
//
// Start runs the command of NewCommand, "bench floor-server", as a child process.
// That server holds response bodies in memory and writes them in large pieces over
// TLS. For watches it broadcasts one event, at the times that an Emitter asks for:
// either with a handler for each stream, or with one goroutine that writes a TLS
// record to each connection in turn (records).
//
// The caller first stores what to send: files with bodies, or WriteEvent. The floor
// decodes nothing, checks no credentials and is no API server.
package floor
