// Package watchclient is an HTTP/2 client for very many watches. One goroutine reads each
// connection and hands the answers to the handlers of its streams. So a watch costs a few
// hundred bytes and no goroutine. Package watchevent reads what the server sends.
//
//	Server ── NewClient ──▶ Client ── Start ──▶ Stream ──▶ Handler
//	                           │
//	                           └─ connections, one more when all are full
//
// A Client stands for one program: it has a connection of its own, as programs have. It opens
// another connection only when the server's limit of streams is reached, or after a connection
// has ended. The package is not a general HTTP client: it follows no redirects and speaks
// HTTP/2 over TLS only.
package watchclient
