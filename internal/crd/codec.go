package crd

import (
	"bytes"
	"io"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
)

// definitionCodec is the storage codec of definitions. Nearly all of a stored
// definition is schemas, which are the slowest part to decode: a decoder of JSON
// begins anew at each part that may be of one type or another, and the types are
// converted to others. This codec reads and writes schemas itself and has Kubernetes'
// decode and encode the definition around them. Schemas that hold what is seldom used, and what is not
// stored as usual, are Kubernetes' as well.
type definitionCodec struct{ runtime.Codec }

// Decode implements runtime.Decoder.
func (c definitionCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	full, ok := into.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return c.Codec.Decode(data, defaults, into)
	}
	found, ok := schemasOf(data)
	if !ok {
		return c.Codec.Decode(data, defaults, into)
	}
	obj, gvk, err := c.Codec.Decode(found.without(data), defaults, into)
	if err != nil || obj != into || !found.fill(full) {
		return c.Codec.Decode(data, defaults, into)
	}
	return obj, gvk, nil
}

// Encode implements runtime.Encoder.
func (c definitionCodec) Encode(obj runtime.Object, w io.Writer) error {
	if full, ok := obj.(*apiextensions.CustomResourceDefinition); ok {
		if texts, ok := writeSchemas(full); ok {
			if done, err := encodeAround(c.Codec, full, texts, w); done || err != nil {
				return err
			}
		}
	}
	return c.Codec.Encode(obj, w)
}

// writeSchemas returns the texts of schemas by their places. It returns false if they
// are to be encoded otherwise.
func writeSchemas(full *apiextensions.CustomResourceDefinition) (map[int][]byte, bool) {
	texts := map[int][]byte{}
	for place, schema := range schemasIn(full) {
		if *schema == nil || (*schema).OpenAPIV3Schema == nil {
			continue
		}
		text, ok := textOf((*schema).OpenAPIV3Schema)
		if !ok {
			return nil, false
		}
		texts[place] = text
	}
	return texts, true
}

// common is the place of a schema for all versions.
const common = -1

// storedSchema is a schema of a stored definition.
type storedSchema struct {
	// version is the place of the version that it is for, or common.
	version int
	// text is a part of what is stored, which begins at offset.
	offset int
	text   []byte
	// made is what it is decoded to, put what it is replaced by.
	made *apiextensions.JSONSchemaProps
	put  []byte
}

// storedSchemas are in the order that they are stored in.
type storedSchemas []storedSchema

// schemaTexts finds the schemas of a stored definition and decodes none. It returns false
// if Kubernetes has to decode the definition.
func schemaTexts(stored []byte) (storedSchemas, bool) {
	s := schemaScanner{schemaReader: newSchemaReader(bytes.TrimSuffix(stored, newline)), version: common}
	versioned := false
	for ok := s.BeginObject(); ok; ok = s.NextField() {
		switch s.name() {
		case "apiVersion":
			s.RefuseIf(versioned || s.string() != v1beta1.SchemeGroupVersion.String())
			versioned = true
		case "spec":
			s.spec()
		default:
			s.Value()
		}
	}
	return s.found, s.Done() && versioned && len(s.found) > 0
}

// schemaScanner collects the schemas of a definition.
type schemaScanner struct {
	schemaReader
	// version is the index of the version that is read, or common.
	version int
	found   storedSchemas
}

func (s *schemaScanner) spec() {
	for ok := s.BeginObject(); ok; ok = s.NextField() {
		switch s.name() {
		case "validation":
			s.version = common
			s.validation()
		case "versions":
			s.versions()
		default:
			s.Value()
		}
	}
}

func (s *schemaScanner) versions() {
	s.version = common
	for ok := s.BeginList(); ok; ok = s.NextItem() {
		s.version++
		for ok := s.BeginObject(); ok; ok = s.NextField() {
			if s.name() == "schema" {
				s.validation()
			} else {
				s.Value()
			}
		}
	}
}

// validation reads the object that holds a schema and nothing else.
func (s *schemaScanner) validation() {
	for ok := s.BeginObject(); ok; ok = s.NextField() {
		twice := slices.ContainsFunc(s.found, func(other storedSchema) bool { return other.version == s.version })
		s.RefuseIf(s.name() != "openAPIV3Schema" || twice)
		at := s.Offset()
		s.found = append(s.found, storedSchema{version: s.version, offset: at, text: s.Value()})
	}
}

// schemasOf makes the schemas of a stored definition. It returns false if they are to
// be decoded otherwise.
func schemasOf(stored []byte) (storedSchemas, bool) {
	found, ok := schemaTexts(stored)
	for i := range found {
		made, usual := schemaOf(found[i].text)
		found[i].made, ok = made, ok && usual
	}
	return found, ok
}

// schemaOf makes a schema of its text. It returns false if that has to be decoded
// otherwise.
func schemaOf(text []byte) (*apiextensions.JSONSchemaProps, bool) {
	r := newSchemaReader(text)
	made := r.newSchema()
	return made, r.Done()
}

// none is the text of an empty schema.
const none = "{}"

// without returns what is stored with empty schemas.
func (s storedSchemas) without(stored []byte) []byte {
	size := len(stored)
	for _, schema := range s {
		size += len(none) - len(schema.text)
	}
	rest, from := make([]byte, 0, size), 0
	for _, schema := range s {
		rest = append(append(rest, stored[from:schema.offset]...), none...)
		from = schema.offset + len(schema.text)
	}
	return append(rest, stored[from:]...)
}

// fill puts schemas into a definition that was decoded without them. It returns
// false if there is no place for one.
func (s storedSchemas) fill(full *apiextensions.CustomResourceDefinition) bool {
	for _, schema := range s {
		place := full.Spec.Validation
		if schema.version != common {
			if schema.version >= len(full.Spec.Versions) {
				return false
			}
			place = full.Spec.Versions[schema.version].Schema
		}
		if place == nil || place.OpenAPIV3Schema == nil {
			return false
		}
		place.OpenAPIV3Schema = schema.made
	}
	return true
}

// definitionOptions finds the storage of definitions, with our codec.
type definitionOptions struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o definitionOptions) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(gr, example)
	if err != nil {
		return options, err
	}
	config := *options.StorageConfig
	config.Codec = definitionCodec{config.Codec}
	options.StorageConfig = &config
	return options, nil
}
