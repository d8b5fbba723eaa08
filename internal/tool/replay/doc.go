// Package replay sends the requests of an audit log to an API server: the same clients,
// requests and rates, and watches for as long as they lasted.
//
//	logs ─► reader ─► plan ─► player ─► instances ─► API server
//	                              └─► outcome ─► Report
//
// A plan is what the log tells, in the order of time. The player sends each request when its
// time has come. Resource versions and continue tokens of a log mean nothing elsewhere: an
// instance uses those that it was answered itself.
package replay
