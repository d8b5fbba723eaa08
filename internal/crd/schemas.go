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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// compiledSchemas is what reading objects of a definition needs, of all versions: schemas,
// conversion, columns. It is immutable but for codecs, which are made as they are
// asked for.
type compiledSchemas struct {
	schemaSet
	group, storageVersion string
	// safe copies what it converts, unsafe does not.
	safe, unsafe runtime.ObjectConvertor
	tables       map[string]rest.TableConvertor

	mu struct {
		sync.Mutex
		codecs map[string]runtime.Codec
	}
}

var errSchema = errors.New("the server could not properly serve the CR schema")

// compileSchemas makes what reading needs.
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
				utilruntime.HandleError(fmt.Errorf("compile schema of %s, version %s: %w", full.Name, v.Name, err))
				return nil, errSchema
			}
			made.byVersion[v.Name] = newVersionSchema(structural)
		}
		// With columns that do not parse there are those before them.
		made.tables[v.Name], _ = tableconvertor.New(columnsOf(v))
	}
	var err error
	if made.safe, made.unsafe, err = s.converters.NewConverter(full); err != nil {
		return nil, fmt.Errorf("make converter of %s: %w", full.Name, err)
	}
	made.mu.codecs = map[string]runtime.Codec{}
	return made, nil
}

// structuralOf makes the structural form of a schema, with defaults that obey it.
// Schemas of old that have none are left out where unknown fields are kept.
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
	// The defaults still belong to the definition.
	structural = structural.DeepCopy()
	return structural, structuraldefaulting.PruneDefaults(structural)
}

// codec translates between stored bytes and objects of a version. inner is the
// storage's codec of objects without schema.
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
