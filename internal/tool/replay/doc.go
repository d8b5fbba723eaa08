// Package replay sends the requests of an audit log to an API server: from the same clients, at the
// same rates. Watches last as long as in the log.
//
//	logs ─► reader ─► plan ─► player ─► instances ─► API server
//	                              └─► outcome ─► Report
//
// A plan has the requests of the log in the order of time. The player sends each request when its
// time has come. Resource versions and continue tokens of the log mean nothing to another server:
// an instance sends the ones that the server has answered it with.
package replay
