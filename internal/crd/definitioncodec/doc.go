// Package definitioncodec is the storage codecs of CustomResourceDefinitions.
//
// Nearly all of a stored definition is schemas, and schemas are its slowest part to
// decode: encoding/json begins anew at each value that may be of several types, and
// Kubernetes then converts the types to its internal ones. The codecs of this package
// deal with the schemas themselves and have Kubernetes' codec deal with the rest:
//
//	stored bytes ──┬─ schemas as text ──> schemaReader ──> JSONSchemaProps ─┐
//	               └─ the rest, with {} for each schema ──> Kubernetes ─────┴─> definition
//
// Codec decodes schemas. OutlineCodec keeps them as text, for code that neither reads nor
// changes schemas: conditions, finalizers, deletion.
//
// Both leave a definition to Kubernetes' codec as a whole if its text is not canonical
// (package storedjson), if it is not stored as v1beta1, or if a schema has one of the
// fields that schemaReader and schemaWriter do not know. They never guess. What they
// encode is equal, byte for byte, to what Kubernetes' codec encodes; the tests compare
// both over random definitions.
package definitioncodec
