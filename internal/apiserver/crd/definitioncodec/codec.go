package definitioncodec

import (
	"bytes"
	"io"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
)

// Codec is the storage codec of definitions. It embeds Kubernetes' codec for v1beta1,
// the version that Kubernetes stores, and decodes in a third of that codec's time. Objects
// of other types are left to the embedded codec.
type Codec struct{ runtime.Codec }

// Decode implements runtime.Decoder.
func (c Codec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	definition, ok := into.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return c.Codec.Decode(data, defaults, into)
	}
	schemas, ok := readSchemas(data)
	if !ok {
		return c.Codec.Decode(data, defaults, into)
	}
	obj, gvk, err := c.Codec.Decode(schemas.cutFrom(data), defaults, into)
	if err != nil || obj != into || !schemas.fill(definition) {
		return c.Codec.Decode(data, defaults, into)
	}
	return obj, gvk, nil
}

// Encode implements runtime.Encoder.
func (c Codec) Encode(obj runtime.Object, w io.Writer) error {
	if definition, ok := obj.(*apiextensions.CustomResourceDefinition); ok {
		if texts, ok := writeSchemas(definition); ok {
			if done, err := encodeWithTexts(c.Codec, definition, texts, w); done || err != nil {
				return err
			}
		}
	}
	return c.Codec.Encode(obj, w)
}

// writeSchemas returns the texts of a definition's schemas by version index. It returns
// false if Kubernetes has to encode one of them.
func writeSchemas(definition *apiextensions.CustomResourceDefinition) (map[int][]byte, bool) {
	texts := map[int][]byte{}
	for version, schema := range Schemas(definition) {
		if *schema == nil || (*schema).OpenAPIV3Schema == nil {
			continue
		}
		text, ok := writeSchema((*schema).OpenAPIV3Schema)
		if !ok {
			return nil, false
		}
		texts[version] = text
	}
	return texts, true
}

// encodeWithTexts encodes a definition whose schemas are encoded already. texts has the
// text of each schema by version index. The codec encodes the definition with empty
// schemas, and the texts replace them. encodeWithTexts returns false, and has written
// nothing, if the codec has to encode the schemas too.
func encodeWithTexts(codec runtime.Encoder, definition *apiextensions.CustomResourceDefinition, texts map[int][]byte, w io.Writer) (done bool, err error) {
	var emptied bytes.Buffer
	if err := codec.Encode(WithoutSchemas(definition), &emptied); err != nil {
		return false, err
	}
	places, ok := findSchemas(emptied.Bytes())
	if !ok || !places.setReplacements(texts) {
		return false, nil
	}
	return true, places.writeReplaced(emptied.Bytes(), w)
}

// RESTOptions returns the storage options of definitions with Codec in the place of
// Kubernetes' codec.
type RESTOptions struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o RESTOptions) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(gr, example)
	if err != nil {
		return options, err
	}
	config := *options.StorageConfig
	config.Codec = Codec{config.Codec}
	options.StorageConfig = &config
	return options, nil
}
