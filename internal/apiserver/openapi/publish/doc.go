// Package publish makes published OpenAPI entries of stored definitions: the paths and
// the schemas of a custom resource, as JSON or protobuf.
//
// Kubernetes needs some ten conversions and copies of a schema to publish it. Nearly all
// definitions need none of them, for what is published of a schema is its stored text in
// another order of keywords. So there are two ways from a definition to its entries:
//
//	stored text ──> schemaTree ──> schemaPublisher ──> schemas      (Publisher)
//	                names      ──> PathTemplate     ──> paths
//
//	decoded definition ──> Kubernetes' own builder ──> entries       (PathTemplates.EntriesV2, EntriesV3)
//
// The first takes a twentieth of the second's time. It refuses every definition of which it
// cannot be sure. That is text that is not canonical (package storedjson), unknown
// keywords, schemas that are not structural, and names that Kubernetes' builder may change.
// The caller then takes the second way. Both give the same document; the tests of package
// openapi compare them with Kubernetes' own.
//
// Paths differ from one resource to the next only in names. A PathTemplate is made once for
// each Shape. Kubernetes builds the document of an exemplar, a definition with names that
// occur nowhere else. The places of those names are cut out of it.
//
// Protobuf is made by gnostic, as in Kubernetes. But its parser of YAML is replaced by one
// for compact JSON, and the messages of paths are made from templates too.
//
// The package knows neither HTTP nor caches nor the catalog of definitions. It must be
// compared with Kubernetes' builder at every upgrade: see schemaTree, structural and
// builtinProperties.
package publish
