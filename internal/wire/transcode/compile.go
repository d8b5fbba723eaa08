package transcode

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ErrUnsupported says that a Go type has something that tables do not describe. Objects of
// such a kind are left to Kubernetes' encoder.
var ErrUnsupported = errors.New("type is not supported by tables")

// Tables holds the tables of Go types. It is not safe for concurrent use.
type Tables struct {
	// Tag returns the tag of a struct's field, in place of its own. Nil means its own. Tests
	// make wrong tables with it. It is set before the first call of Kind.
	Tag func(owner reflect.Type, field reflect.StructField) reflect.StructTag
	// messages has nil for types that are not supported.
	messages map[reflect.Type]*message
}

// NewTables returns an empty set of tables.
func NewTables() *Tables { return &Tables{messages: map[reflect.Type]*message{}} }

const (
	// maxFields and maxNumber bound a table. No type of Kubernetes is near them.
	maxFields = 250
	maxNumber = 1 << 10
)

// compile returns the table of a struct type.
func (t *Tables) compile(typ reflect.Type) (*message, error) {
	if m := t.messages[typ]; m != nil {
		return m, nil
	}
	_, failed := t.messages[typ]
	if failed || marshals(typ) || typ.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %v", ErrUnsupported, typ)
	}
	t.messages[typ] = nil // Types that contain themselves are not supported.
	m := &message{relations: relationsOf(typ)}
	for i := range typ.NumField() {
		if err := t.compileField(m, typ, i); err != nil {
			return nil, fmt.Errorf("%v: %w", typ, err)
		}
	}
	for i := range m.relations {
		m.relations[i].token = rand.Uint64()
	}
	if err := m.index(); err != nil {
		return nil, fmt.Errorf("%v: %w", typ, err)
	}
	t.messages[typ] = m
	return m, nil
}

// index fills byNumber, and checks that numbers and names are unique.
func (m *message) index() error {
	names := map[string]bool{}
	if len(m.fields) > maxFields {
		return fmt.Errorf("%w: %d fields", ErrUnsupported, len(m.fields))
	}
	for i := range m.fields {
		f := &m.fields[i]
		for int(f.number) >= len(m.byNumber) {
			m.byNumber = append(m.byNumber, 0)
		}
		if m.byNumber[f.number] != 0 {
			return fmt.Errorf("%w: field number %d twice", ErrUnsupported, f.number)
		}
		m.byNumber[f.number] = uint8(i + 1)
		if f.required() || f.absent != nil {
			m.always.add(i)
		}
		for _, name := range f.names() {
			if names[name] {
				return fmt.Errorf("%w: name %s twice", ErrUnsupported, name)
			}
			names[name] = true
		}
	}
	return nil
}

// names returns the names in JSON that a field brings into its object.
func (f *field) names() []string {
	if !f.inline {
		return []string{string(f.name)}
	}
	var all []string
	for i := range f.message.fields {
		all = append(all, f.message.fields[i].names()...)
	}
	return all
}

// compileField adds a struct's field i to its table.
func (t *Tables) compileField(m *message, typ reflect.Type, i int) error {
	sf := typ.Field(i)
	if t.Tag != nil {
		sf.Tag = t.Tag(typ, sf)
	}
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	tag := sf.Tag.Get("protobuf")
	if name == "-" && options == "" || !sf.IsExported() {
		if tag != "" {
			return fmt.Errorf("%w: %s is stored and not in JSON", ErrUnsupported, sf.Name)
		}
		return nil
	}
	if tag == "" {
		// The kind and version are not in an object's protobuf but around it.
		if sf.Type == reflect.TypeFor[metav1.TypeMeta]() && sf.Anonymous {
			return nil
		}
		return fmt.Errorf("%w: %s has no protobuf tag", ErrUnsupported, sf.Name)
	}
	f := field{token: rand.Uint64(), inline: sf.Anonymous && name == "", opening: openingOf(typ, sf.Name)}
	if name == "" {
		name = sf.Name
	}
	for option := range strings.SplitSeq(options, ",") {
		f.omitEmpty = f.omitEmpty || option == "omitempty"
		f.omitZero = f.omitZero || option == "omitzero"
		if option == "string" {
			return fmt.Errorf("%w: %s is a quoted number", ErrUnsupported, sf.Name)
		}
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return fmt.Errorf("quote name: %w", err)
	}
	f.name = append(append([]byte{','}, quoted...), ':')
	if err := t.setType(&f, sf.Type); err != nil {
		return fmt.Errorf("%s: %w", sf.Name, err)
	}
	if err := f.setTag(tag); err != nil {
		return fmt.Errorf("%s: %w", sf.Name, err)
	}
	f.hashedDomain = f.arity == mapped
	f.hashed = f.hashed || name == "kind"
	if f.inline && (f.value != messageValue || f.arity != single || f.pointer) || f.omitZero && f.value != timeValue {
		return fmt.Errorf("%w: %s", ErrUnsupported, sf.Name)
	}
	f.absent = f.whenAbsent()
	m.fields = append(m.fields, f)
	return nil
}

// setTag reads a protobuf tag, as in "bytes,1,opt,name=metadata".
func (f *field) setTag(tag string) error {
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return fmt.Errorf("%w: tag %q", ErrUnsupported, tag)
	}
	number, err := strconv.ParseUint(parts[1], 10, 32)
	if err != nil || number == 0 || number >= maxNumber {
		return fmt.Errorf("%w: tag %q", ErrUnsupported, tag)
	}
	// The type in the tag is not always the type of the generated code. The Go type is.
	wire := protowire.BytesType
	if f.arity != mapped && (f.value == intValue || f.value == boolValue) {
		wire = protowire.VarintType
	}
	f.number, f.tag = uint32(number), uint32(number)<<3|uint32(wire)
	f.tagSize = uint8(bits.Len32(f.tag)+6) / 7
	return nil
}

// setType sets what the field's Go type decides.
func (t *Tables) setType(f *field, typ reflect.Type) error {
	switch {
	case typ.Kind() == reflect.Pointer:
		f.pointer = true
		return t.setValue(f, typ.Elem())
	case isItems(typ):
		f.value, f.pointer = itemsValue, true
		return nil
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() != reflect.Uint8:
		f.arity = list
		if typ.Elem().Kind() == reflect.Slice {
			return fmt.Errorf("%w: list of %v", ErrUnsupported, typ.Elem())
		}
		return t.setValue(f, typ.Elem())
	case typ.Kind() == reflect.Map:
		f.arity = mapped
		if typ.Key().Kind() != reflect.String || marshals(typ.Key()) {
			return fmt.Errorf("%w: map of %v", ErrUnsupported, typ.Key())
		}
		if isItems(typ.Elem()) {
			f.value = itemsValue
			return nil
		}
		if err := t.setValue(f, typ.Elem()); err != nil {
			return err
		}
		f.hashed = isEnumeration(typ.Key())
		return nil
	}
	return t.setValue(f, typ)
}

// setValue sets how values of a type are written.
func (t *Tables) setValue(f *field, typ reflect.Type) error {
	switch typ {
	case reflect.TypeFor[resource.Quantity]():
		f.value = quantityValue
		return nil
	case reflect.TypeFor[metav1.Time]():
		f.value = timeValue
		return nil
	case reflect.TypeFor[metav1.MicroTime]():
		f.value = microTimeValue
		return nil
	case reflect.TypeFor[metav1.Duration]():
		f.value = durationValue
		return nil
	case reflect.TypeFor[intstr.IntOrString]():
		f.value = intOrStringValue
		return nil
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		f.value = rawValue
		return nil
	}
	if marshals(typ) {
		return fmt.Errorf("%w: %v", ErrUnsupported, typ)
	}
	switch typ.Kind() {
	case reflect.String:
		f.value, f.hashed = textValue, isEnumeration(typ)
	case reflect.Bool:
		f.value = boolValue
	case reflect.Int32, reflect.Int64:
		f.value, f.wide = intValue, typ.Kind() == reflect.Int64
	case reflect.Slice:
		if typ.Elem().Kind() != reflect.Uint8 {
			return fmt.Errorf("%w: %v", ErrUnsupported, typ)
		}
		f.value = bytesValue
	case reflect.Struct:
		var err error
		f.value = messageValue
		f.message, err = t.compile(typ)
		return err
	default:
		return fmt.Errorf("%w: %v", ErrUnsupported, typ)
	}
	return nil
}

// isEnumeration reports whether a type of strings has few values, at which Kubernetes may
// look. Its constants cannot be found by reflection, so every named type counts, except for
// types that identify something.
func isEnumeration(typ reflect.Type) bool {
	switch typ {
	case reflect.TypeFor[types.UID](), reflect.TypeFor[types.NodeName](), reflect.TypeFor[corev1.UniqueVolumeName]():
		return false
	}
	return typ.PkgPath() != ""
}

// isItems reports whether a type is a list of strings that protobuf stores as a message.
func isItems(typ reflect.Type) bool {
	message := reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()
	return typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.String && reflect.PointerTo(typ).Implements(message)
}

// marshals reports whether encoding/json asks a type to write itself.
func marshals(typ reflect.Type) bool {
	for _, t := range []reflect.Type{typ, reflect.PointerTo(typ)} {
		if t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return true
		}
	}
	return false
}

// whenAbsent returns what JSON has for a field that is not stored.
func (f *field) whenAbsent() []byte {
	zero := "null"
	switch {
	case f.omitEmpty && f.omitsEmpty() || f.omitZero:
		return nil
	case f.arity != single || f.pointer:
	case f.value == messageValue:
		return nil
	case f.value == textValue:
		zero = `""`
	case f.value == boolValue:
		zero = "false"
	case f.value == intValue, f.value == intOrStringValue:
		zero = "0"
	case f.value == quantityValue:
		zero = `"0"`
	case f.value == durationValue:
		zero = `"0s"`
	}
	return append(f.name[:len(f.name):len(f.name)], zero...)
}

// omitsEmpty reports whether the type has values that omitempty leaves out. Structs have
// none.
func (f *field) omitsEmpty() bool {
	return f.arity != single || f.pointer || f.value <= bytesValue
}
