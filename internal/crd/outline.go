package crd

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// outlineCodec is the storage codec of outlines. An outline is a definition whose
// schemas are the texts that are stored, each as the description of an empty schema: it
// is copied, converted and compared at no cost, and is equal to another just when the
// texts are. What is not stored as usual is read whole.
//
// An outline is for what neither looks at schemas nor changes them. It must not leave
// the server.
type outlineCodec struct{ runtime.Codec }

// outlineMark begins the description of a schema that is a text. Nobody else knows it.
var outlineMark = "text of a schema, known by " + rand.Text() + ":"

// Decode implements runtime.Decoder.
func (c outlineCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	whole := definitionCodec{c.Codec}
	full, ok := into.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return whole.Decode(data, defaults, into)
	}
	found, ok := schemaTexts(data)
	if !ok {
		return whole.Decode(data, defaults, into)
	}
	for i := range found {
		found[i].made = &apiextensions.JSONSchemaProps{Description: outlineMark + string(found[i].text)}
	}
	obj, gvk, err := c.Codec.Decode(found.without(data), defaults, into)
	if err != nil || obj != into || !found.fill(full) {
		return whole.Decode(data, defaults, into)
	}
	return obj, gvk, nil
}

// Encode implements runtime.Encoder.
func (c outlineCodec) Encode(obj runtime.Object, w io.Writer) error {
	full, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return c.Codec.Encode(obj, w)
	}
	if texts, ok := textsIn(full); ok {
		if done, err := encodeAround(c.Codec, full, texts, w); done || err != nil {
			return err
		}
	}
	whole, err := wholeOf(full)
	if err != nil {
		return err
	}
	return c.Codec.Encode(whole, w)
}

// encodeAround encodes a definition, with texts for its schemas by their places. It
// returns false if it has to be encoded otherwise; then nothing was written.
func encodeAround(codec runtime.Encoder, full *apiextensions.CustomResourceDefinition, texts map[int][]byte, w io.Writer) (done bool, err error) {
	var around bytes.Buffer
	if err := codec.Encode(bareOf(full), &around); err != nil {
		return false, err
	}
	places, ok := schemaTexts(around.Bytes())
	if !ok || !places.take(texts) {
		return false, nil
	}
	return true, places.insert(around.Bytes(), w)
}

// textsIn returns the texts of an outline by their places. It returns false if a schema
// is none.
func textsIn(full *apiextensions.CustomResourceDefinition) (map[int][]byte, bool) {
	texts := map[int][]byte{}
	for place, schema := range schemasIn(full) {
		if *schema == nil || (*schema).OpenAPIV3Schema == nil {
			continue
		}
		text, ok := strings.CutPrefix((*schema).OpenAPIV3Schema.Description, outlineMark)
		if !ok {
			return nil, false
		}
		texts[place] = []byte(text)
	}
	return texts, true
}

// bareOf returns a copy of a definition with empty schemas.
func bareOf(full *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	bare := *full
	bare.Spec.Versions = slices.Clone(full.Spec.Versions)
	for _, place := range schemasIn(&bare) {
		if *place != nil && (*place).OpenAPIV3Schema != nil {
			*place = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{}}
		}
	}
	return &bare
}

// schemasIn visits the schemas of a definition and their places.
func schemasIn(full *apiextensions.CustomResourceDefinition) iter.Seq2[int, **apiextensions.CustomResourceValidation] {
	return func(yield func(int, **apiextensions.CustomResourceValidation) bool) {
		if !yield(common, &full.Spec.Validation) {
			return
		}
		for i := range full.Spec.Versions {
			if !yield(i, &full.Spec.Versions[i].Schema) {
				return
			}
		}
	}
}

// take puts texts into what is for empty schemas. It returns false unless those are
// the same places.
func (s storedSchemas) take(texts map[int][]byte) bool {
	if len(s) != len(texts) {
		return false
	}
	for i := range s {
		if _, ok := texts[s[i].version]; !ok || string(s[i].text) != none {
			return false
		}
	}
	for i := range s {
		s[i].put = texts[s[i].version]
	}
	return true
}

// insert writes a definition with what was taken in the place of the schemas.
func (s storedSchemas) insert(around []byte, w io.Writer) error {
	from := 0
	for _, schema := range s {
		if _, err := w.Write(around[from:schema.offset]); err != nil {
			return err
		}
		if _, err := w.Write(schema.put); err != nil {
			return err
		}
		from = schema.offset + len(schema.text)
	}
	_, err := w.Write(around[from:])
	return err
}

// wholeOf makes an outline whole, in a copy. Definitions that are none are returned as
// they are.
func wholeOf(full *apiextensions.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	whole := *full
	whole.Spec.Versions = slices.Clone(full.Spec.Versions)
	for _, place := range schemasIn(&whole) {
		if *place == nil || (*place).OpenAPIV3Schema == nil {
			continue
		}
		text, ok := strings.CutPrefix((*place).OpenAPIV3Schema.Description, outlineMark)
		if !ok {
			continue
		}
		made, err := decodeSchema([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("read a schema of definition %s: %w", full.Name, err)
		}
		*place = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: made}
	}
	return &whole, nil
}

// decodeSchema makes a schema of its text.
func decodeSchema(text []byte) (*apiextensions.JSONSchemaProps, error) {
	if made, ok := schemaOf(text); ok {
		return made, nil
	}
	var stored v1beta1.JSONSchemaProps
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	made := new(apiextensions.JSONSchemaProps)
	return made, v1beta1.Convert_v1beta1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&stored, made, nil)
}
