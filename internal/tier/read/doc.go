// Package read answers GET, LIST and WATCH of stored objects from bytes, inside
// Kubernetes' handler chain. Authentication, authorization, audit, fairness and deadlines
// are done when a request arrives here.
//
// A read that the package cannot answer byte for byte as Kubernetes would is passed on, never
// approximated. Kubernetes' own handler answers it, or the upstream of a replica. Each has a
// passReason, which is counted. In a storm the package itself rejects some reads with 429.
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
// wire form that was asked for. A SharedConfig is common to all routes.
//
// Package tiermount constructs the tier and the routes of built-in resources. Package crd
// makes the routes of custom resources. Package program runs Warm. This package finds no objects
// itself: an Objects does. It is not for writes. Objects are decoded only if their bytes in a
// form are not there yet.
package read
