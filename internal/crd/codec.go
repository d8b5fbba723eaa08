package crd

import (
	"bytes"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
)

// definitionCodec is the storage codec of definitions. Nearly all of a stored
// definition is schemas, which are the slowest part to decode: a decoder of JSON
// begins anew at each part that may be of one type or another, and the types are
// converted to others. This codec reads schemas itself and has Kubernetes' decode
// the definition around them. Schemas that hold what is seldom used, and what is not
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

// storedSchemas are the schemas of a stored definition.
type storedSchemas struct {
	// texts are parts of what is stored, in order.
	texts [][]byte
	// common is for all versions, the others are theirs by their places.
	common   *apiextensions.JSONSchemaProps
	versions map[int]*apiextensions.JSONSchemaProps
}

// schemasOf reads the schemas of a stored definition. It returns false if they are
// to be decoded otherwise.
func schemasOf(stored []byte) (*storedSchemas, bool) {
	r := reader{}
	top := r.object(bytes.TrimSuffix(stored, newline))
	if r.text(top.get("apiVersion")) != v1beta1.SchemeGroupVersion.String() {
		return nil, false
	}
	found := &storedSchemas{versions: map[int]*apiextensions.JSONSchemaProps{}}
	spec := r.object(top.get("spec"))
	for _, f := range spec {
		switch string(f.name) {
		case "validation":
			found.common = found.read(&r, f.value)
		case "versions":
			versions, ok := itemsOf(f.value)
			r.unusual = r.unusual || !ok
			for i, text := range versions {
				if own := r.object(text).get("schema"); own != nil {
					found.versions[i] = found.read(&r, own)
				}
			}
		}
	}
	return found, !r.unusual && len(found.texts) > 0
}

// read reads a schema in its frame.
func (s *storedSchemas) read(r *reader, validation []byte) *apiextensions.JSONSchemaProps {
	text := r.object(validation).get("openAPIV3Schema")
	c := cursor{text: text}
	made := c.newSchema()
	r.unusual = r.unusual || c.failed || c.at != len(text)
	s.texts = append(s.texts, text)
	return made
}

// without returns what is stored with empty schemas.
func (s *storedSchemas) without(stored []byte) []byte {
	rest := make([]byte, 0, len(stored))
	from := 0
	for _, text := range s.texts {
		at := cap(stored) - cap(text) // both end where the memory does
		rest = append(append(rest, stored[from:at]...), "{}"...)
		from = at + len(text)
	}
	return append(rest, stored[from:]...)
}

// fill puts schemas into a definition that was decoded without them. It returns
// false if there is no place for one.
func (s *storedSchemas) fill(full *apiextensions.CustomResourceDefinition) bool {
	put := func(place *apiextensions.CustomResourceValidation, made *apiextensions.JSONSchemaProps) bool {
		if place == nil || place.OpenAPIV3Schema == nil {
			return false
		}
		place.OpenAPIV3Schema = made
		return true
	}
	if s.common != nil && !put(full.Spec.Validation, s.common) {
		return false
	}
	for i, made := range s.versions {
		if i >= len(full.Spec.Versions) || !put(full.Spec.Versions[i].Schema, made) {
			return false
		}
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
