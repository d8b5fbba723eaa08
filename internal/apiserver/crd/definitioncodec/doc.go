// Package definitioncodec is the storage codecs of CustomResourceDefinitions.
//
// Nearly all of a stored definition is schemas, and schemas are its slowest part to decode.
// encoding/json starts again at each value that may be of several types. Kubernetes then
// converts the types to its internal ones. The codecs of this package handle the schemas
// and leave the other fields to Kubernetes' codec:
//
//	stored bytes ──┬─ schemas as text ──> schemaReader ──> JSONSchemaProps ─┐
//	               └─ the rest, with {} for each schema ──> Kubernetes ─────┴─> definition
//
// Codec decodes schemas. OutlineCodec keeps them as text, for code that neither reads nor
// changes schemas: conditions, finalizers, deletion.
//
// Both codecs leave the whole definition to Kubernetes' codec if its text is not canonical
// (package storedjson), not stored as v1beta1, or without a schema. Codec does so too if a
// schema has a field that schemaReader or schemaWriter does not know. The codecs
// encode to the same bytes as Kubernetes' codec; the tests compare both over random
// definitions.
package definitioncodec
