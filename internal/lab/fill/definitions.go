package fill

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ReadDefinitions reads the custom resource definitions in files, or below directories: those
// of a real project. Other objects in the files are left out.
func ReadDefinitions(paths []string) ([]*apiextv1.CustomResourceDefinition, error) {
	var all []*apiextv1.CustomResourceDefinition
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
				return err
			}
			found, err := readDefinitionFile(name)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read definitions: %w", err)
		}
	}
	if len(all) == 0 && len(paths) > 0 {
		return nil, fmt.Errorf("read definitions: %s has no CustomResourceDefinition", strings.Join(paths, ", "))
	}
	return all, nil
}

func readDefinitionFile(name string) (all []*apiextv1.CustomResourceDefinition, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(file))
	for {
		text, err := documents.Read()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		var d apiextv1.CustomResourceDefinition
		// Templates and other files of a project are no YAML, or no definitions.
		if yaml.Unmarshal(text, &d) != nil || d.Kind != "CustomResourceDefinition" || d.APIVersion != "apiextensions.k8s.io/v1" || len(d.Spec.Versions) == 0 {
			continue
		}
		all = append(all, &d)
	}
}

// definitionSource gives the definitions of real projects, and objects of them besides those of
// a Shape.
type definitionSource struct {
	shapeSource
	definitions []*apiextv1.CustomResourceDefinition
	objects     int
}

func (s definitionSource) count(kind Kind) int {
	switch kind {
	case KindCRD:
		return len(s.definitions)
	case KindCustomObject:
		return s.objects
	}
	return s.shapeSource.count(kind)
}

func (s definitionSource) object(ctx context.Context, kind Kind, i int) (Object, error) {
	switch kind {
	case KindCRD:
		return s.definition(i)
	case KindCustomObject:
		return s.customObject(i), nil
	}
	return s.shapeSource.object(ctx, kind, i)
}

// definition returns definition i without what would need other programs: conversion webhooks.
func (s definitionSource) definition(i int) (Object, error) {
	d := s.definitions[i]
	metadata := map[string]any{"name": d.Name, "labels": map[string]any{LabelSeed: s.g.seedLabel()}}
	if approval := d.Annotations["api-approved.kubernetes.io"]; approval != "" {
		metadata["annotations"] = map[string]any{"api-approved.kubernetes.io": approval}
	}
	spec := d.Spec.DeepCopy()
	spec.Conversion = nil
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	content, err := decode(encoded)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": content}}
	return &placedObject{Object: object, kind: KindCRD, path: crdAPI + "/" + string(KindCRD)}, nil
}

// customObject returns custom object i, which is valid as far as the schema alone tells. Its
// rules and patterns may refuse it; then one with the required fields alone is tried.
func (s definitionSource) customObject(i int) *placedObject {
	d := s.definitions[i%len(s.definitions)]
	version := storageVersion(d)
	names := Definition{Group: d.Spec.Group, Version: version.Name, Kind: d.Spec.Names.Kind, Plural: d.Spec.Names.Plural}
	try := func(requiredOnly bool) *placedObject {
		draw := newStream(s.g.shape.Seed, drawCustomObject, i)
		var schema apiextv1.JSONSchemaProps
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			schema = *version.Schema.OpenAPIV3Schema
		}
		v := schemaValue{valueMaker: valueMaker{text: s.g.envText, draw: &draw, remaining: maxValues}, requiredOnly: requiredOnly}
		content := v.root(schema)
		content["apiVersion"], content["kind"] = d.Spec.Group+"/"+version.Name, d.Spec.Names.Kind
		o := &placedObject{Object: &unstructured.Unstructured{Object: content}, kind: KindCustomObject, definition: &names}
		o.SetName(fmt.Sprintf("fill-%d-%07d", s.g.shape.Seed, i))
		o.SetLabels(map[string]string{LabelSeed: s.g.seedLabel()})
		if d.Spec.Scope == apiextv1.NamespaceScoped {
			o.SetNamespace(s.g.namespaceName(i / len(s.definitions) % s.g.shape.Namespaces))
		}
		o.path = names.Path(o.GetNamespace())
		return o
	}
	object := try(false)
	object.lesser = func() *placedObject { return try(true) }
	return object
}

func storageVersion(d *apiextv1.CustomResourceDefinition) apiextv1.CustomResourceDefinitionVersion {
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextv1.CustomResourceDefinitionVersion) bool { return v.Storage && v.Served })
	return d.Spec.Versions[max(0, i)]
}

// placedObject is an object that is sent as JSON to a path.
type placedObject struct {
	Object
	kind Kind
	path string // of the collection
	// definition has to be served before, unless it is nil.
	definition *Definition
	// lesser returns an object to try if the server finds this one invalid. It may be nil.
	lesser func() *placedObject
}

// MarshalJSON implements json.Marshaler.
func (o *placedObject) MarshalJSON() ([]byte, error) { return json.Marshal(o.Object) }

// content is the object as a map. Those of a Shape are not made of maps.
func (o *placedObject) content() map[string]any {
	return o.Object.(*unstructured.Unstructured).Object
}
