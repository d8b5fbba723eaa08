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

// coercer gives an object without a Go type the checks that decoding into a Go type makes.
// It checks metadata. It drops fields that the schema does not know, and nulls that it does
// not allow.
type coercer struct {
	schemas schemaSet
	// stored is set for objects from storage, which may be older than the checks. Malformed
	// metadata is dropped then, and a missing generation is added.
	stored bool
	// strict says that apply returns the paths of dropped fields.
	strict bool
}

// schemaSet has the schemas of all versions of one kind.
type schemaSet struct {
	kind      schema.GroupKind
	byVersion map[string]versionSchema
	// keepUnknown is the definition's spec.preserveUnknownFields.
	keepUnknown bool
}

// versionSchema is the schema of a version, with facts about it that spare walks over each
// object.
type versionSchema struct {
	*structuralschema.Structural // may be nil
	// embeds is set if the schema has embedded resources, and defaults if it has defaults.
	embeds, defaults bool
}

func newVersionSchema(s *structuralschema.Structural) versionSchema {
	v := versionSchema{Structural: s}
	v.scan(s)
	return v
}

// scan sets embeds and defaults by a walk over the schema that goes where coercing and
// defaulting go.
func (v *versionSchema) scan(s *structuralschema.Structural) {
	if s == nil {
		return
	}
	v.embeds = v.embeds || s.XEmbeddedResource
	v.defaults = v.defaults || s.Default.Object != nil
	v.scan(s.Items)
	if s.AdditionalProperties != nil {
		v.scan(s.AdditionalProperties.Structural)
	}
	for _, property := range s.Properties {
		v.scan(&property)
	}
}

// hasNull reports whether there is a null in a JSON value.
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

// apply coerces an object of the kind in place; of other objects it coerces metadata
// alone. If c.strict is set it returns the paths of unknown fields.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredSchemaCoercer.apply; compare at each upgrade.
func (c *coercer) apply(u *unstructured.Unstructured) ([]string, error) {
	// Schemas do not cover apiVersion, kind and metadata. They are put back afterwards.
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
	if hasMeta && !c.leavesMetadata(metadata) {
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
	// DeleteOptions are decoded by this coercer, too.
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

// leavesMetadata reports whether coercing is sure to leave metadata as it is.
func (c *coercer) leavesMetadata(metadata any) bool {
	if !metadataRoundTrips(metadata) {
		return false
	}
	_, there := metadata.(map[string]any)["generation"]
	return there || !c.stored
}

// applySchema coerces an object by its schema. It leaves out Kubernetes' walks that would
// change nothing. They copy parts of the schema at each step, which was an eighth of the
// garbage of a write.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredSchemaCoercer.apply; compare at each upgrade.
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

// coercingDecoder coerces the objects that a decoder returns.
type coercingDecoder struct {
	runtime.Decoder
	coercer coercer
}

// Decode implements runtime.Decoder. A strict decoder returns an object together with an
// error that names all unknown fields.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.schemaCoercingDecoder.Decode; compare at each upgrade.
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

// coercingConvertor coerces the objects that a convertor returns.
type coercingConvertor struct {
	runtime.ObjectConvertor
	coercer coercer
}

// Convert implements runtime.ObjectConvertor.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.schemaCoercingConverter.Convert; compare at each upgrade.
func (c coercingConvertor) Convert(in, out, context any) error {
	if err := c.ObjectConvertor.Convert(in, out, context); err != nil {
		return err
	}
	return c.coerce(out)
}

// ConvertToVersion implements runtime.ObjectConvertor.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.schemaCoercingConverter.ConvertToVersion; compare at each upgrade.
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

// defaulter sets the defaults of the schemas in objects of the kind.
type defaulter struct {
	// others sets the defaults of objects of other kinds.
	others  runtime.ObjectDefaulter
	schemas schemaSet
}

// Default implements runtime.ObjectDefaulter.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredDefaulter.Default; compare at each upgrade.
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
