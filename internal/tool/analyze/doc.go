// Package analyze is the command "analyze": it reads audit logs and tells which client
// costs an API server what, and which request or setting would cost less.
//
//	auditlog ─► collector: client × shape, in bounded tables
//	                 │
//	profile ─► model: what the server had to process ─► price: CPU
//	                 │
//	                 └─► findings ─► Report ─► tables, JSON, one page of HTML
//
// An audit log does not say how many objects an answer had, how large they were, or in
// which form they were sent. The profile of the cluster has counts and sizes; the form is
// that of the program's client library, as far as it is known. So costs are estimates, and
// the report says what they rest on.
//
// The package sends no requests, except for "analyze profile". A Millrace server measures
// the same on its own requests: package usage.
package analyze
