package definitioncodec

import (
	"bytes"
	"io"
	"iter"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
)

// AllVersions stands for a version's index where a schema belongs to all versions.
const AllVersions = -1

// Schemas visits the places of a definition's schemas with the index of the version that
// each is for. A place that has no schema is nil.
func Schemas(definition *apiextensions.CustomResourceDefinition) iter.Seq2[int, **apiextensions.CustomResourceValidation] {
	return func(yield func(int, **apiextensions.CustomResourceValidation) bool) {
		if !yield(AllVersions, &definition.Spec.Validation) {
			return
		}
		for i := range definition.Spec.Versions {
			if !yield(i, &definition.Spec.Versions[i].Schema) {
				return
			}
		}
	}
}

// storedSchema is a schema of a stored definition.
type storedSchema struct {
	// version is the index of the version that the schema is for, or AllVersions.
	version int
	// offset is where text begins in the stored bytes.
	offset int
	// text is a part of the stored bytes.
	text []byte
	// decoded is what fill puts into the definition: a decoded schema, or the schema of an
	// outline.
	decoded *apiextensions.JSONSchemaProps
	// replacement is set by setReplacements.
	replacement []byte
}

// storedSchemas are the schemas of one definition in the order of their text.
type storedSchemas []storedSchema

// findSchemas finds the schemas of a stored definition and decodes none. It returns false
// if there are none, or if Kubernetes has to decode the definition.
func findSchemas(stored []byte) (storedSchemas, bool) {
	f := schemaFinder{schemaReader: newSchemaReader(bytes.TrimSuffix(stored, []byte("\n"))), version: AllVersions}
	isV1beta1 := false
	for ok := f.BeginObject(); ok; ok = f.NextField() {
		switch f.name() {
		case "apiVersion":
			f.RefuseIf(isV1beta1 || f.string() != v1beta1.SchemeGroupVersion.String())
			isV1beta1 = true
		case "spec":
			f.spec()
		default:
			f.Value()
		}
	}
	return f.found, f.Done() && isV1beta1 && len(f.found) > 0
}

// readSchemas finds the schemas of a stored definition and decodes them. It returns false
// if Kubernetes has to decode the definition.
func readSchemas(stored []byte) (storedSchemas, bool) {
	schemas, ok := findSchemas(stored)
	for i := range schemas {
		decoded, known := readSchema(schemas[i].text)
		schemas[i].decoded, ok = decoded, ok && known
	}
	return schemas, ok
}

// schemaFinder collects the schemas of a definition.
type schemaFinder struct {
	schemaReader
	// version is the index of the version at which the reader is, or AllVersions.
	version int
	found   storedSchemas
}

func (f *schemaFinder) spec() {
	for ok := f.BeginObject(); ok; ok = f.NextField() {
		switch f.name() {
		case "validation":
			f.version = AllVersions
			f.validation()
		case "versions":
			f.versions()
		default:
			f.Value()
		}
	}
}

func (f *schemaFinder) versions() {
	f.version = AllVersions
	for ok := f.BeginList(); ok; ok = f.NextItem() {
		f.version++
		for ok := f.BeginObject(); ok; ok = f.NextField() {
			if f.name() == "schema" {
				f.validation()
			} else {
				f.Value()
			}
		}
	}
}

// validation reads an object that holds one schema and nothing else.
func (f *schemaFinder) validation() {
	for ok := f.BeginObject(); ok; ok = f.NextField() {
		twice := slices.ContainsFunc(f.found, func(other storedSchema) bool { return other.version == f.version })
		f.RefuseIf(f.name() != "openAPIV3Schema" || twice)
		offset := f.Offset()
		f.found = append(f.found, storedSchema{version: f.version, offset: offset, text: f.Value()})
	}
}

// emptySchema is the text of a schema without fields.
const emptySchema = "{}"

// cutFrom returns a copy of the stored bytes in which all schemas are empty.
func (s storedSchemas) cutFrom(stored []byte) []byte {
	size := len(stored)
	for _, schema := range s {
		size += len(emptySchema) - len(schema.text)
	}
	emptied, from := make([]byte, 0, size), 0
	for _, schema := range s {
		emptied = append(emptied, stored[from:schema.offset]...)
		emptied = append(emptied, emptySchema...)
		from = schema.offset + len(schema.text)
	}
	return append(emptied, stored[from:]...)
}

// fill puts the field decoded of each schema into a definition that was decoded with empty
// schemas. It returns false if the definition has no place for one of them.
func (s storedSchemas) fill(definition *apiextensions.CustomResourceDefinition) bool {
	for _, schema := range s {
		place := definition.Spec.Validation
		if schema.version != AllVersions {
			if schema.version >= len(definition.Spec.Versions) {
				return false
			}
			place = definition.Spec.Versions[schema.version].Schema
		}
		if place == nil || place.OpenAPIV3Schema == nil {
			return false
		}
		place.OpenAPIV3Schema = schema.decoded
	}
	return true
}

// setReplacements sets the text that takes the place of each schema, by version index. It
// returns false, and sets none, unless all schemas are empty and have a text.
func (s storedSchemas) setReplacements(texts map[int][]byte) bool {
	if len(s) != len(texts) {
		return false
	}
	for i := range s {
		if _, ok := texts[s[i].version]; !ok || string(s[i].text) != emptySchema {
			return false
		}
	}
	for i := range s {
		s[i].replacement = texts[s[i].version]
	}
	return true
}

// writeReplaced writes stored bytes with the replacements in the place of the schemas.
func (s storedSchemas) writeReplaced(stored []byte, w io.Writer) error {
	from := 0
	for _, schema := range s {
		if _, err := w.Write(stored[from:schema.offset]); err != nil {
			return err
		}
		if _, err := w.Write(schema.replacement); err != nil {
			return err
		}
		from = schema.offset + len(schema.text)
	}
	_, err := w.Write(stored[from:])
	return err
}
