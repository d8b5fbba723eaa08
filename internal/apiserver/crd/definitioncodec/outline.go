package definitioncodec

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OutlineCodec is the storage codec of outlines. An outline is a definition in which each
// schema has only a description, and the description is the schema's stored text.
//
// To copy, convert or compare an outline's schema is to copy, convert or compare one
// string. Two outlines are equal exactly if their stored texts are. Without outlines, a
// write of one condition would decode, copy and encode thousands of properties.
//
// Outlines are for code that neither reads nor changes schemas. They must not leave the
// server: WithSchemas makes ordinary definitions of them. A definition that is not
// canonical becomes no outline: it is decoded as Codec decodes it.
type OutlineCodec struct{ runtime.Codec }

// outlineMark begins the description of an outline's schema. It is random, so that no
// definition of a client can be taken for an outline.
var outlineMark = "text of a schema, known by " + rand.Text() + ":"

// Decode implements runtime.Decoder.
func (c OutlineCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	schemaCodec := Codec{c.Codec}
	definition, ok := into.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return schemaCodec.Decode(data, defaults, into)
	}
	schemas, ok := findSchemas(data)
	if !ok {
		return schemaCodec.Decode(data, defaults, into)
	}
	for i := range schemas {
		schemas[i].decoded = &apiextensions.JSONSchemaProps{Description: outlineMark + string(schemas[i].text)}
	}
	obj, gvk, err := c.Codec.Decode(schemas.cutFrom(data), defaults, into)
	if err != nil || obj != into || !schemas.fill(definition) {
		return schemaCodec.Decode(data, defaults, into)
	}
	return obj, gvk, nil
}

// Encode implements runtime.Encoder. It encodes outlines and ordinary definitions.
func (c OutlineCodec) Encode(obj runtime.Object, w io.Writer) error {
	definition, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return c.Codec.Encode(obj, w)
	}
	if texts, ok := outlineTexts(definition); ok {
		if done, err := encodeWithTexts(c.Codec, definition, texts, w); done || err != nil {
			return err
		}
	}
	decoded, err := WithSchemas(definition)
	if err != nil {
		return err
	}
	return c.Codec.Encode(decoded, w)
}

// outlineTexts returns the texts of an outline's schemas by version index. It returns
// false if one of the schemas is not a text.
func outlineTexts(definition *apiextensions.CustomResourceDefinition) (map[int][]byte, bool) {
	texts := map[int][]byte{}
	for version, schema := range Schemas(definition) {
		if *schema == nil || (*schema).OpenAPIV3Schema == nil {
			continue
		}
		text, ok := strings.CutPrefix((*schema).OpenAPIV3Schema.Description, outlineMark)
		if !ok {
			return nil, false
		}
		texts[version] = []byte(text)
	}
	return texts, true
}

// WithoutSchemas returns a copy of a definition or an outline with empty schemas.
func WithoutSchemas(definition *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	bare := *definition
	bare.Spec.Versions = slices.Clone(definition.Spec.Versions)
	for _, place := range Schemas(&bare) {
		if *place != nil && (*place).OpenAPIV3Schema != nil {
			*place = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{}}
		}
	}
	return &bare
}

// WithSchemas returns a copy of an outline with decoded schemas. Schemas that are not
// texts are shared with the argument.
func WithSchemas(outline *apiextensions.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	decoded := *outline
	decoded.Spec.Versions = slices.Clone(outline.Spec.Versions)
	for _, place := range Schemas(&decoded) {
		if *place == nil || (*place).OpenAPIV3Schema == nil {
			continue
		}
		text, ok := strings.CutPrefix((*place).OpenAPIV3Schema.Description, outlineMark)
		if !ok {
			continue
		}
		schema, err := decodeSchema([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("read a schema of definition %s: %w", outline.Name, err)
		}
		*place = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema}
	}
	return &decoded, nil
}

// decodeSchema decodes a schema with our reader, or with Kubernetes' code if our reader
// refuses its text.
func decodeSchema(text []byte) (*apiextensions.JSONSchemaProps, error) {
	if decoded, ok := readSchema(text); ok {
		return decoded, nil
	}
	var stored v1beta1.JSONSchemaProps
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	decoded := new(apiextensions.JSONSchemaProps)
	return decoded, v1beta1.Convert_v1beta1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&stored, decoded, nil)
}
