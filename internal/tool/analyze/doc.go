// Package analyze is the command "analyze". It reads audit logs, and reports what each client costs
// an API server, and which request or setting would cost less.
//
//	auditlog ─► collector: client × shape, in bounded tables
//	                 │
//	profile ─► model: what the server had to process ─► price: CPU
//	                 │
//	                 └─► findings ─► Report ─► tables, JSON, one page of HTML
//
// An audit log does not say how many objects an answer had, how large they were, or in which
// encoding they were sent. A profile of the cluster has counts and sizes. The encoding follows from
// the name of the program (package useragent). So costs are estimates, and the report says what
// they rest on.
//
// Only "analyze profile" sends requests. A Millrace server measures its own requests: package
// usage.
package analyze
