// Package read answers GET, LIST and WATCH of stored objects from bytes, inside
// Kubernetes' handler chain. Authentication, authorization, audit, fairness and deadlines
// are done when a request arrives here.
//
// A request that the package cannot answer byte for byte as Kubernetes would is passed on
// to Kubernetes' own handler, never approximated. Each has a passReason, which is counted.
//
//	request ─► Tier.Wrap ─► parse: route, path, parameters, form ──► passReason ─► next
//	                          │ query                                    ▲
//	                          ├─► get, list ── find, encode ─────────────┤ before the first byte
//	                          └─► watch ─► watchSession ─────────────────┘
//	                                         │ Pull
//	                                         ▼
//	                                       watchSource ◄─ a pull worker asks
//
// A Tier has a Route for each resource and version, and a Route an encode.Form for each
// wire form that was asked for. Only Shared is common to all routes.
//
// The caller constructs the tier and its routes, calls the setters before the first
// request, and runs Warm. That is package serve, and package crd for custom resources. The
// package finds no objects itself: an Objects does. It is not for writes. Objects are
// decoded only where their bytes in a form are not there yet.
package read
