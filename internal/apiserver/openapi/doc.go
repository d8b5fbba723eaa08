// Package openapi serves /openapi/v2 and /openapi/v3 of an API server with thousands of
// CustomResourceDefinitions.
//
// Kubernetes keeps each document whole, and builds all of it again when a definition
// changes. Here a document is never whole. It is put together when a client asks for it:
//
//	definition ──> publish   ──> fragment ──┐
//	definition ──> publish   ──> fragment ──┼──> document ──> client
//	built-in resources, services ──> frame ─┘
//
// A fragment is the paths and the schemas of one definition in one form: JSON or
// protobuf, v2 or v3. Fragments are cached compressed, within a budget of bytes. A client
// that wants v2 with gzip gets the deflated bytes as they are. For other clients, and for v3,
// one piece at a time is inflated. A definition that changes costs new fragments of its own
// and no others.
//
// A frame is what surrounds fragments. For v2 it is a base: Kubernetes' own merge of what
// the servers in this process and the services of the aggregation layer publish.
// Definitions whose names or paths conflict with others are merged into the base by
// Kubernetes' code, and have no fragments.
//
// Entity tags, and the hashes in the v3 root, identify the content and the version of the
// program. They are the same on all servers of one version.
//
// A caller makes a Server with New, which builds nothing, and puts its Wrap before the
// handler of Kubernetes' aggregator. The package neither authenticates nor authorizes.
// It knows services of the aggregation layer only by the documents that the next handler
// answers with; v3 documents of such services are that handler's.
package openapi
