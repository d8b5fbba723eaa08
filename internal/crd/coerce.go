package crd

import (
	"errors"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// coercer makes of an object what decoding into a Go type would: metadata is
// checked, fields that the schema does not know and nulls that it does not allow
// are dropped.
type coercer struct {
	schemas schemaSet
	// stored objects may be older than the checks: what is wrong with their metadata
	// is dropped, and a generation is added.
	stored bool
	// strict collects the paths of what is dropped.
	strict bool
}

// schemaSet are the schemas of one kind.
type schemaSet struct {
	kind      schema.GroupKind
	byVersion map[string]versionSchema
	// keepUnknown is spec.preserveUnknownFields.
	keepUnknown bool
}

// versionSchema is the schema of a version, and what of it need not be looked for in
// each object.
type versionSchema struct {
	*structuralschema.Structural // may be nil
	// embeds says that objects of the schema have other objects in them, defaults that
	// there is something to fill in.
	embeds, defaults bool
}

func newVersionSchema(s *structuralschema.Structural) versionSchema {
	made := versionSchema{Structural: s}
	made.look(s)
	return made
}

// look finds what is in a schema, where coercing and defaulting would come by.
func (v *versionSchema) look(s *structuralschema.Structural) {
	if s == nil {
		return
	}
	v.embeds = v.embeds || s.XEmbeddedResource
	v.defaults = v.defaults || s.Default.Object != nil
	v.look(s.Items)
	if s.AdditionalProperties != nil {
		v.look(s.AdditionalProperties.Structural)
	}
	for _, property := range s.Properties {
		v.look(&property)
	}
}

// hasNull reports whether there is a null in JSON.
func hasNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, v := range value {
			if hasNull(v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasNull)
	}
	return false
}

// apply changes an object of the kind, and the metadata of any other. It returns
// the paths of fields that are not known.
func (c *coercer) apply(u *unstructured.Unstructured) ([]string, error) {
	// What every object has stands outside of the schema: it is put back afterwards.
	kind, hasKind, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, hasVersion, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil {
		return nil, err
	}
	metadata, hasMeta := u.Object["metadata"]
	var meta *metav1.ObjectMeta // nil if metadata stays as it is
	var unknown []string
	if hasMeta && !c.settled(metadata) {
		meta, _, unknown, err = schemaobjectmeta.GetObjectMetaWithOptions(u.Object, schemaobjectmeta.ObjectMetaOptions{
			DropMalformedFields: c.stored, ReturnUnknownFieldPaths: c.strict,
		})
		if err != nil {
			return nil, err
		}
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	// Options of a deletion come here too.
	if gv.Group == c.schemas.kind.Group && kind == c.schemas.kind.Kind {
		paths, err := c.applySchema(u, c.schemas.byVersion[gv.Version])
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, paths...)
		if c.stored && meta != nil && meta.Generation == 0 {
			meta.Generation = 1
		}
	}
	if hasKind {
		u.SetKind(kind)
	}
	if hasVersion {
		u.SetAPIVersion(apiVersion)
	}
	switch {
	case meta != nil:
		err = schemaobjectmeta.SetObjectMeta(u.Object, meta)
	case hasMeta:
		u.Object["metadata"] = metadata
	}
	return unknown, err
}

// settled reports whether coercing is sure to leave metadata as it is.
func (c *coercer) settled(metadata any) bool {
	if !metadataRoundTrips(metadata) {
		return false
	}
	_, there := metadata.(map[string]any)["generation"]
	return there || !c.stored
}

// applySchema leaves out the walks that would change nothing: they take copies of the
// schema all along, an eighth of the garbage of a write.
func (c *coercer) applySchema(u *unstructured.Unstructured, s versionSchema) (unknown []string, err error) {
	if !c.schemas.keepUnknown {
		unknown = structuralpruning.PruneWithOptions(u.Object, s.Structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: c.strict})
		if hasNull(u.Object) {
			structuraldefaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s.Structural)
		}
	}
	if !s.embeds {
		return unknown, nil
	}
	ferr, paths := schemaobjectmeta.CoerceWithOptions(nil, u.Object, s.Structural, false, schemaobjectmeta.CoerceOptions{
		DropInvalidFields: c.stored, ReturnUnknownFieldPaths: c.strict,
	})
	if ferr != nil {
		return nil, ferr
	}
	return append(unknown, paths...), nil
}

// coercingDecoder coerces what a decoder returns.
type coercingDecoder struct {
	runtime.Decoder
	coercer coercer
}

// Decode implements runtime.Decoder. Of a strict one, the errors name all unknown
// fields, and the object is returned with them.
func (d coercingDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	var strict []error
	if err != nil {
		found, ok := runtime.AsStrictDecodingError(err)
		if !ok || obj == nil {
			return nil, gvk, err
		}
		strict = found.Errors()
	}
	u, ok := obj.(*unstructured.Unstructured)
	if ok {
		unknown, err := d.coercer.apply(u)
		if err != nil {
			return nil, gvk, err
		}
		for _, path := range unknown {
			strict = append(strict, errors.New(`unknown field "`+path+`"`))
		}
	}
	if d.coercer.strict && len(strict) > 0 {
		return obj, gvk, runtime.NewStrictDecodingError(strict)
	}
	return obj, gvk, nil
}

// coercingConvertor coerces what is converted.
type coercingConvertor struct {
	runtime.ObjectConvertor
	coercer coercer
}

// Convert implements runtime.ObjectConvertor.
func (c coercingConvertor) Convert(in, out, context any) error {
	if err := c.ObjectConvertor.Convert(in, out, context); err != nil {
		return err
	}
	return c.coerce(out)
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (c coercingConvertor) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	out, err := c.ObjectConvertor.ConvertToVersion(in, gv)
	if err != nil {
		return nil, err
	}
	if err := c.coerce(out); err != nil {
		return nil, err
	}
	return out, nil
}

func (c coercingConvertor) coerce(out any) error {
	u, ok := out.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	_, err := c.coercer.apply(u)
	return err
}

// defaulter fills in the defaults of the schemas.
type defaulter struct {
	// others has the defaults of what is not of the kind.
	others  runtime.ObjectDefaulter
	schemas schemaSet
}

// Default implements runtime.ObjectDefaulter.
func (d defaulter) Default(in runtime.Object) {
	u, ok := in.(runtime.Unstructured)
	if !ok || u.GetObjectKind().GroupVersionKind().GroupKind() != d.schemas.kind {
		d.others.Default(in)
		return
	}
	if s := d.schemas.byVersion[u.GetObjectKind().GroupVersionKind().Version]; s.defaults {
		structuraldefaulting.Default(u.UnstructuredContent(), s.Structural)
	}
}
