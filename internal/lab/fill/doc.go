// Package fill writes synthetic clusters: nodes, namespaces, service accounts,
// config maps, secrets, pods with their deployments and services, leases, events, custom
// resource definitions and custom objects. The
// caller chooses their numbers and sizes. All contents are derived from one seed.
// Benchmarks and tests use it to get many realistic objects quickly.
//
//	Config ── New ──▶ Filler ── Run ──▶ workers ──┬─▶ apiClient ──▶ API server
//	                                      │       └─▶ etcdTarget ─▶ etcd
//	                                      ▼
//	                          Generator (object i of a kind)
//
// A Filler has one of two targets. Through the API of any Kubernetes server,
// objects pass admission and validation, and the server sets their identity.
// Written directly into etcd, objects have the same form as if a server had stored
// them. Transactions carry many objects, so etcd is 10 to 100 times faster.
// Definitions and custom objects can only be written through the API.
//
// Every object carries the label LabelSeed, whose value is the seed. A run with
// Config.Delete removes only objects with that label.
//
// A caller that needs only objects uses Generator and EncodeStored. A caller that
// needs a filled cluster builds a Filler with New and calls Run once.
//
// The package is not a load generator: it does not pace its writes and does not
// change objects after it has written them. Do not use it with an etcd that holds
// valuable data and has little free space.
package fill
