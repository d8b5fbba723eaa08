package transcode

// value says how a field's value is stored and written.
type value uint8

const (
	textValue    value = iota // a string
	boolValue                 // a bool
	intValue                  // an int32 or int64
	bytesValue                // a []byte: base64 in JSON
	messageValue              // a struct
	itemsValue                // a message that is a list of strings, as authentication's ExtraValue
	// These have a MarshalJSON of their own.
	quantityValue    // resource.Quantity
	timeValue        // metav1.Time
	microTimeValue   // metav1.MicroTime
	durationValue    // metav1.Duration
	intOrStringValue // intstr.IntOrString
	rawValue         // runtime.RawExtension and metav1.FieldsV1
)

// arity says how many values a field has.
type arity uint8

const (
	single arity = iota
	list
	mapped // a map: entries with a key, which is a string, and a value
)

// field is a field of a message. What each walk needs stands first, in one line of the
// processor's cache.
type field struct {
	// name begins the field in JSON: a comma, the quoted name and a colon.
	name []byte
	// token is the field's part of a fingerprint.
	token uint64
	// message is the table of the values, for messageValue.
	message *message

	tag     uint32 // number and wire type, as it is stored
	tagSize uint8
	value   value
	arity   arity
	// wide tells an int64 from an int32.
	wide bool
	// pointer says that a stored zero value is written too.
	pointer bool
	// omitEmpty leaves out an empty text, list or map, false and 0.
	omitEmpty bool
	// omitZero leaves out a zero time.
	omitZero bool
	// inline writes the fields of the message in place of the message.
	inline bool
	// hashed says that the text, or the map's key, is part of the fingerprint. hashedDomain
	// says the same of texts and keys that Kubernetes has reserved.
	hashed, hashedDomain bool
	// revision says that the field is the object's resourceVersion.
	revision bool
	// top says that the field is one of the object itself.
	top bool

	number uint32
	// absent is what JSON has if the field is not stored, name included. Nil means nothing.
	// A struct that is no pointer is written as if it were stored empty.
	absent []byte
	// opening begins the objects of the field in JSON: what conversion adds to each.
	opening []byte
}

// message is the table of a struct.
type message struct {
	// fields are in the order of the Go struct, as in JSON.
	fields []field
	// byNumber has for each protobuf number the index in fields plus 1, or 0.
	byNumber []uint8
	// always has the fields for which something is done if they are not stored.
	always fieldSet
	// relations are values at which conversion looks (see relations.go).
	relations []relationOf
}

// fieldSet is a set of fields, by their index in a message.
type fieldSet [(maxFields + 63) / 64]uint64

func (s *fieldSet) add(i int) { s[i/64] |= 1 << (i % 64) }

// find returns the index of a field, or -1.
func (m *message) find(number uint64) int {
	if number >= uint64(len(m.byNumber)) {
		return -1
	}
	return int(m.byNumber[number]) - 1
}

// required reports whether Kubernetes' encoder writes the field even if it is zero.
func (f *field) required() bool {
	return f.arity == single && !f.pointer && f.value != bytesValue
}
