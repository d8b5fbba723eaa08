// Package transcode makes what clients are sent straight from the bytes that etcd stores:
// Kubernetes' protobuf to Kubernetes' JSON or protobuf, without Go structs.
//
// Tables say how each field is written. They are compiled at the start, by reflection, from
// Kubernetes' own Go types and their struct tags. One walk through an object's stored bytes
// writes its JSON, or checks that its protobuf can be spliced: sent with its resourceVersion
// inserted. The walk also computes the object's fingerprint. That is a hash of
// which fields are set, and of the values at which Kubernetes' defaulting and conversion look.
//
// What is written so is sent only if it is proven. A fingerprint is proven when, for an
// object that has it, these bytes and the bytes of Kubernetes' encoder were equal. A share of
// the later objects is compared too. The first difference takes the fingerprint out for good.
// docs/design/transcode.md has the argument why a fingerprint decides.
//
//	entry ─► Transcoder.Append ─► walk ─► bytes, fingerprint
//	              │                            │
//	              │        Proofs: proven ◄────┴────► unknown, refuted, or not in a table's reach
//	              ▼                                    │
//	         these bytes               Kubernetes' encoder, whose bytes are compared and sent
//
// A caller makes Tables and Proofs once, a Kind for each kind and version, and a Transcoder
// for each form. Custom resources, which are stored as JSON, have a walk of their own
// (custom.go). The package does not decode objects. An object may be sent otherwise than it
// is stored, for example if an older version has stored it. A Normalizer normalizes such an
// object once, so that it can be transcoded.
package transcode
