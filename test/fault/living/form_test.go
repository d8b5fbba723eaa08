package living

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/test/support/changingupstream"
)

const (
	asObject   = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf"
	asTable    = "application/json;as=Table;g=meta.k8s.io;v=v1"
	asMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// form is a media type for answers about a target.
func (r *reader) form(t target) string {
	if t.Definition == nil {
		return r.pick(asObject, asProtobuf)
	}
	return asObject
}

// listForm is one for lists.
func (r *reader) listForm(t target) string {
	if r.random.IntN(4) == 0 {
		return r.pick(asTable, asMetadata)
	}
	return r.form(t)
}

// asJSON returns the content of an answer in JSON.
func asJSON(body []byte, accept string) ([]byte, error) {
	if accept != asProtobuf {
		return body, nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return json.Marshal(object)
}

// frameAsJSON returns the object of a frame in JSON.
func frameAsJSON(raw []byte, accept string) ([]byte, error) {
	if accept != asProtobuf {
		var outer struct{ Object json.RawMessage }
		err := json.Unmarshal(raw, &outer)
		return outer.Object, err
	}
	var outer metav1.WatchEvent
	if err := outer.Unmarshal(raw[4:]); err != nil { // behind the length
		return nil, err
	}
	return asJSON(outer.Object.Raw, accept)
}

// table is a Table whose rows have whole objects.
type table struct {
	metav1.ListMeta   `json:"metadata"`
	ColumnDefinitions []struct{ Name string }
	Rows              []struct {
		Cells  []any
		Object json.RawMessage
	}
}

// newList reads a list in some form.
func newList(body []byte, accept string) (*changingupstream.List, error) {
	content, err := asJSON(body, accept)
	if err != nil {
		return nil, err
	}
	if accept != asTable {
		return changingupstream.NewList(content)
	}
	var read table
	if err := json.Unmarshal(content, &read); err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	if err := read.check(); err != nil {
		return nil, err
	}
	items := []json.RawMessage{}
	for _, row := range read.Rows {
		items = append(items, row.Object)
	}
	text, err := json.Marshal(map[string]any{"metadata": read.ListMeta, "items": items})
	if err != nil {
		return nil, err
	}
	return changingupstream.NewList(text)
}

// check checks the cells that a script's columns have: they show the color.
func (t *table) check() error {
	for _, row := range t.Rows {
		var o struct {
			Metadata struct{ Name string }
			Spec     struct{ Color any }
		}
		if err := json.Unmarshal(row.Object, &o); err != nil {
			return err
		}
		for i, column := range t.ColumnDefinitions {
			want := row.Cells[i]
			switch {
			case column.Name == "Name":
				want = o.Metadata.Name
			case strings.HasPrefix(column.Name, "C") && len(column.Name) == 2:
				want = o.Spec.Color
			}
			if row.Cells[i] != want {
				return fmt.Errorf("row %v of %s: column %s is not %v", row.Cells, o.Metadata.Name, column.Name, want)
			}
		}
	}
	return nil
}

// columns returns an error unless a table has the columns of one of some generations.
func columns(body []byte, among []changingupstream.Generation) error {
	var read table
	if err := json.Unmarshal(body, &read); err != nil {
		return err
	}
	var names []string
	for _, column := range read.ColumnDefinitions {
		names = append(names, column.Name)
	}
	var wanted [][]string
	for _, g := range among {
		want := []string{"Name"}
		for i := range g.Columns {
			want = append(want, fmt.Sprintf("C%d", i))
		}
		if g.Columns == 0 {
			want = append(want, "Age")
		}
		if slices.Equal(names, want) {
			return nil
		}
		wanted = append(wanted, want)
	}
	return fmt.Errorf("columns %v, and not %v", names, wanted)
}
