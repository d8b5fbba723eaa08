// Package openapi serves /openapi/v2 and /openapi/v3 of an API server with
// thousands of CustomResourceDefinitions.
//
// A document is built when it is asked for and is never there as a whole. It is
// put together from fragments, the paths and the schemas of one definition:
// plain text is unpacked or written on the way out, and gzip is sent as it is
// kept. Fragments live compressed within a byte budget; a definition that
// changed is built again and no other. What Kubernetes serves itself is built
// once, by Kubernetes' own code, and kept compressed too.
//
// The documents are those of the stock server: its builder makes samples of
// custom resources, and a definition's paths are a sample's with other names in
// them. Schemas are written from the stored text of definitions, without
// decoding it (tree, press); what is not surely published so is decoded, checked
// and converted by Kubernetes' code (structural, natives), one definition at a
// time. Either way gives the same document. A definition whose names or paths
// meet those of others is built and merged by Kubernetes' code. Entity tags and the hashes of the v3 root identify
// the content: they are the same on all servers of one version.
//
// The package does not authenticate or authorize, and it knows services behind
// the aggregation layer only by the specs that its Config hands over; their v3
// documents are the next handler's.
package openapi
