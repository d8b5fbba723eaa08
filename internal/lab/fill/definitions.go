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

// ReadDefinitions returns the custom resource definitions in files, or below directories. It
// ignores other objects in the files. Finding no definition at all is an error.
func ReadDefinitions(paths []string) ([]*apiextv1.CustomResourceDefinition, error) {
	var all []*apiextv1.CustomResourceDefinition
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
				return err
			}
			definitions, err := readDefinitionFile(name)
			all = append(all, definitions...)
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

// readDefinitionFile returns the definitions in a file of YAML or JSON documents. It ignores
// documents that are not definitions, and templates, which are not YAML.
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
		if yaml.Unmarshal(text, &d) != nil || d.Kind != "CustomResourceDefinition" || d.APIVersion != "apiextensions.k8s.io/v1" || len(d.Spec.Versions) == 0 {
			continue
		}
		all = append(all, &d)
	}
}

// definitionSource has the definitions of real projects, objects of these definitions, and the
// built-in objects of a Shape.
type definitionSource struct {
	shapeSource
	definitions []*apiextv1.CustomResourceDefinition
	objects     int // number of custom objects
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

// definition returns definition i without its conversion webhook, which may not run here.
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
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1",
		"kind": "CustomResourceDefinition", "metadata": metadata, "spec": content}}
	return &placedObject{Object: object, kind: KindCRD, path: crdAPI + "/" + string(KindCRD)}, nil
}

// customObject returns custom object i. It follows the schema's types and bounds, but the
// schema's rules and patterns may refuse it. Its fallback has the required fields alone.
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
		v := schemaValueMaker{valueMaker: valueMaker{text: s.g.envText, draw: &draw, remaining: maxValues}, requiredOnly: requiredOnly}
		content := v.rootObject(schema)
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
	object.fallback = func() *placedObject { return try(true) }
	return object
}

// storageVersion returns the version that is stored and served, or otherwise the first version.
func storageVersion(d *apiextv1.CustomResourceDefinition) apiextv1.CustomResourceDefinitionVersion {
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextv1.CustomResourceDefinitionVersion) bool { return v.Storage && v.Served })
	return d.Spec.Versions[max(0, i)]
}
