package crd

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	"k8s.io/apiserver/pkg/registry/rest"
)

// compiledSchemas has what reads of a definition's objects need, for all versions: schemas,
// convertors and columns. It is immutable except for its codecs.
type compiledSchemas struct {
	schemaSet
	group, storageVersion string
	// safe copies the objects that it converts, and unsafe writes into them.
	safe, unsafe runtime.ObjectConvertor
	tables       map[string]rest.TableConvertor

	mu struct {
		sync.Mutex
		// codecs are by version, and made when they are first asked for.
		codecs map[string]runtime.Codec
	}
}

var errSchema = errors.New("the server could not properly serve the CR schema")

// compileSchemas compiles the schemas of a definition.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func (s *Server) compileSchemas(full *apiextensionsv1.CustomResourceDefinition, kind schema.GroupKind) (*compiledSchemas, error) {
	made := &compiledSchemas{
		schemaSet: schemaSet{kind: kind, byVersion: map[string]versionSchema{}, keepUnknown: full.Spec.PreserveUnknownFields},
		group:     full.Spec.Group, tables: map[string]rest.TableConvertor{},
	}
	for i := range full.Spec.Versions {
		v := &full.Spec.Versions[i]
		if v.Storage {
			made.storageVersion = v.Name
		}
		if v.Schema != nil {
			structural, err := structuralOf(v.Schema, made.keepUnknown)
			if err != nil {
				s.cfg.Logger.Error("Schema cannot be compiled", "name", full.Name, "version", v.Name, "err", err)
				return nil, errSchema
			}
			made.byVersion[v.Name] = newVersionSchema(structural)
		}
		// If a column does not parse, the table has the columns before it.
		made.tables[v.Name], _ = tableconvertor.New(columnsOf(v))
	}
	var err error
	if made.safe, made.unsafe, err = s.converters.NewConverter(full); err != nil {
		return nil, fmt.Errorf("make converter of %s: %w", full.Name, err)
	}
	made.mu.codecs = map[string]runtime.Codec{}
	return made, nil
}

// structuralOf returns the structural schema of a schema, with defaults pruned by it. Old
// schemas may have no structural form. If unknown fields are kept such a schema is left
// out, and otherwise it is an error.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func structuralOf(v *apiextensionsv1.CustomResourceValidation, keepUnknown bool) (*structuralschema.Structural, error) {
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if keepUnknown {
		return structural, nil
	}
	if err != nil {
		return nil, err
	}
	// Without a copy pruning would change the defaults of the definition.
	structural = structural.DeepCopy()
	return structural, structuraldefaulting.PruneDefaults(structural)
}

// codec returns the codec between stored bytes and objects of a version. inner is the
// storage's codec, which knows no schema. A codec is cheap to make, so the lock is held
// meanwhile.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdConversionRESTOptionsGetter.GetRESTOptions; compare at each upgrade.
func (c *compiledSchemas) codec(version string, inner runtime.Codec) runtime.Codec {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.mu.codecs[version]
	if made == nil {
		made = versioning.NewCodec(
			inner,
			coercingDecoder{inner, coercer{schemas: c.schemaSet, stored: true}},
			coercingConvertor{c.safe, coercer{schemas: c.schemaSet}},
			creator{}, crdserverscheme.NewUnstructuredObjectTyper(),
			defaulter{apiextensionsapiserver.Scheme, c.schemaSet},
			versionOnly{schema.GroupVersion{Group: c.group, Version: c.storageVersion}},
			schema.GroupVersion{Group: c.group, Version: version},
			"crdRESTOptions",
		)
		c.mu.codecs[version] = made
	}
	return made
}
