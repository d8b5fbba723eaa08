package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// BodyKind says how the items of a body are counted.
type BodyKind int

const (
	JSONList BodyKind = iota
	JSONTable
	JSONObject
	ProtobufList
	AnyBody // not decoded; counts as one item
)

// countItems counts the items of a body, and holds one item or field in memory at a time. A single
// object is one item. AnyBody is only read. Of the other kinds a truncated body is an error, and so
// are bytes after the end of JSON.
func countItems(r io.Reader, kind BodyKind) (int, error) {
	switch kind {
	case JSONTable:
		return countJSON(r, "rows")
	case JSONObject:
		return countObject(r)
	case ProtobufList:
		return countProtobuf(bufio.NewReaderSize(r, testbed.ReadSize))
	case AnyBody:
		_, err := io.Copy(io.Discard, r)
		return 1, err
	default:
		return countJSON(r, "items")
	}
}

// countObject decodes a single object. It returns 1, or an error if the object has no kind or no
// name.
func countObject(r io.Reader) (int, error) {
	var object struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	dec := json.NewDecoder(r)
	if err := dec.Decode(&object); err != nil {
		return 0, fmt.Errorf("decode object: %w", err)
	}
	if object.Kind == "" || object.Metadata.Name == "" {
		return 0, errors.New("decode object: it has no kind or no name")
	}
	return 1, expectEnd(dec)
}

// countJSON counts the elements of the array in a field of the top-level object.
func countJSON(r io.Reader, field string) (int, error) {
	dec := json.NewDecoder(r)
	if err := expectDelim(dec, '{'); err != nil {
		return 0, err
	}
	count := 0
	found := false
	var skipped json.RawMessage
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return count, fmt.Errorf("decode list: %w", err)
		}
		if key != field {
			if err := dec.Decode(&skipped); err != nil {
				return count, fmt.Errorf("decode %v: %w", key, err)
			}
			continue
		}
		found = true
		if err := expectDelim(dec, '['); err != nil {
			return count, err
		}
		for ; dec.More(); count++ {
			if err := dec.Decode(&skipped); err != nil {
				return count, fmt.Errorf("decode item %d: %w", count, err)
			}
		}
		if err := expectDelim(dec, ']'); err != nil {
			return count, err
		}
	}
	if err := expectDelim(dec, '}'); err != nil {
		return count, err
	}
	if !found {
		return 0, fmt.Errorf("decode list: no %q", field)
	}
	return count, expectEnd(dec)
}

// expectDelim reads the next token. It returns an error unless that is want.
func expectDelim(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if err != nil {
		return fmt.Errorf("decode list: %w", noEOF(err))
	}
	if got != want {
		return fmt.Errorf("decode list: %v instead of %v", got, want)
	}
	return nil
}

// expectEnd returns an error if anything follows what was decoded.
func expectEnd(dec *json.Decoder) error {
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("decode body: something follows the end")
	}
	return nil
}

// countProtobuf counts the items of a list in Kubernetes' envelope. The envelope is a magic
// number and a runtime.Unknown, whose field 2 holds the list. The list's field 2 is repeated
// for each item.
func countProtobuf(r *bufio.Reader) (count int, err error) {
	magic := make([]byte, 4)
	if _, err := io.ReadFull(r, magic); err != nil {
		return 0, fmt.Errorf("decode envelope: %w", noEOF(err))
	}
	if !bytes.Equal(magic, []byte("k8s\x00")) {
		return 0, fmt.Errorf("decode envelope: magic number is %q", magic)
	}
	found := false
	err = eachField(r, func(number uint64, field *io.LimitedReader) error {
		if number != 2 || found {
			return nil
		}
		found = true
		return eachField(bufio.NewReaderSize(field, testbed.ReadSize), func(number uint64, _ *io.LimitedReader) error {
			if number == 2 {
				count++
			}
			return nil
		})
	})
	if err == nil && !found {
		err = errors.New("decode envelope: it holds no object")
	}
	return count, err
}

// eachField calls visit for the length-delimited fields of a protobuf message. It skips
// varints, and the bytes that visit does not read. Any other wire type is an error.
func eachField(r *bufio.Reader, visit func(number uint64, field *io.LimitedReader) error) error {
	const varint, delimited = 0, 2
	for {
		tag, err := binary.ReadUvarint(r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("decode tag: %w", err)
		}
		size, err := binary.ReadUvarint(r) // a value or a length
		if err != nil {
			return fmt.Errorf("decode field: %w", noEOF(err))
		}
		switch tag & 7 {
		case varint:
			continue
		case delimited:
		default:
			return fmt.Errorf("decode field: wire type %d", tag&7)
		}
		field := &io.LimitedReader{R: r, N: int64(min(size, math.MaxInt64))}
		if err := visit(tag>>3, field); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, r, field.N); err != nil {
			return fmt.Errorf("decode field: %w", noEOF(err))
		}
	}
}

// noEOF returns io.ErrUnexpectedEOF for io.EOF, and other errors as they are.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
