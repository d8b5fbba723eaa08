package fill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fieldSet returns the managedFields set (FieldsV1) that a server would record for
// a manager that wrote exactly the fields of obj. Fields that identify the object,
// such as name and UID, have no owner and are left out.
func fieldSet(obj any) ([]byte, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("marshal managed object: %w", err)
	}
	var tree map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read managed object: %w", err)
	}
	delete(tree, "apiVersion")
	delete(tree, "kind")
	if meta, ok := tree["metadata"].(map[string]any); ok {
		for _, field := range []string{"name", "namespace", "uid", "creationTimestamp", "generation", "managedFields"} {
			delete(meta, field)
		}
		if len(meta) == 0 {
			delete(tree, "metadata")
		}
	}
	var buf bytes.Buffer
	writeFields(&buf, tree, false)
	return buf.Bytes(), nil
}

// writeFields writes the set for the members of one object. If self is true, it
// also writes the entry "." for the object itself.
func writeFields(buf *bytes.Buffer, members map[string]any, self bool) {
	buf.WriteByte('{')
	self = self && len(members) > 0
	if self {
		buf.WriteString(`".":{}`)
	}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 || self {
			buf.WriteByte(',')
		}
		buf.WriteString(strconv.Quote("f:" + name))
		buf.WriteByte(':')
		writeField(buf, name, members[name])
	}
	buf.WriteByte('}')
}

// writeField writes the set for one member by its value.
func writeField(buf *bytes.Buffer, name string, value any) {
	switch value := value.(type) {
	case map[string]any:
		if isAtomic(name) {
			buf.WriteString("{}")
			return
		}
		writeFields(buf, value, !isPlain(name))
	case []any:
		writeItems(buf, name, value)
	default:
		buf.WriteString("{}")
	}
}

// writeItems writes the set for a list. A list without keys has a single owner for
// all of its items.
func writeItems(buf *bytes.Buffer, name string, items []any) {
	keys := listKeys(name)
	if keys == nil {
		buf.WriteString("{}")
		return
	}
	buf.WriteByte('{')
	if !isPlain(name) {
		buf.WriteString(`".":{}`)
	}
	byID := make(map[string]map[string]any, len(items))
	for _, item := range items {
		members, _ := item.(map[string]any)
		id := make(map[string]any, len(keys))
		for _, key := range keys {
			id[key] = members[key]
		}
		text, _ := json.Marshal(id) // strings and numbers that came from JSON
		byID[string(text)] = members
	}
	for i, id := range slices.Sorted(maps.Keys(byID)) {
		if i > 0 || !isPlain(name) {
			buf.WriteByte(',')
		}
		buf.WriteString(strconv.Quote("k:" + id))
		buf.WriteByte(':')
		writeFields(buf, byID[id], true)
	}
	buf.WriteByte('}')
}

// listKeys returns the members that identify an item of the named list, in
// alphabetical order. It returns nil for a list that is owned as a whole.
func listKeys(name string) []string {
	switch name {
	case "containers", "env", "volumes":
		return []string{"name"}
	case "ports":
		return []string{"containerPort", "protocol"}
	case "volumeMounts":
		return []string{"mountPath"}
	case "ownerReferences":
		return []string{"uid"}
	case "conditions", "addresses":
		return []string{"type"}
	case "podIPs":
		return []string{"ip"}
	}
	return nil
}

// isAtomic reports whether the named object is owned as a whole.
func isAtomic(name string) bool {
	switch name {
	case "fieldRef", "secretKeyRef", "configMapKeyRef", "resourceFieldRef":
		return true
	}
	return false
}

// isPlain reports whether the named object or list always exists. Such a field has
// no entry "." for itself.
func isPlain(name string) bool {
	switch name {
	case "metadata", "spec", "status", "containers", "conditions":
		return true
	}
	return false
}

// textTemplate is a text with one hole. The zero value is an empty text.
type textTemplate struct{ head, tail []byte }

// newTextTemplate cuts the first occurrence of part out of text. If part does not
// occur, the template has no hole and render returns text itself.
func newTextTemplate(text []byte, part string) textTemplate {
	head, tail, found := bytes.Cut(text, []byte(part))
	if !found {
		return textTemplate{head: text}
	}
	return textTemplate{head: head, tail: tail}
}

// render returns a copy of the text with part in the hole.
func (t textTemplate) render(part string) []byte {
	if t.tail == nil {
		return t.head
	}
	text := make([]byte, 0, len(t.head)+len(part)+len(t.tail))
	text = append(text, t.head...)
	text = append(text, part...)
	return append(text, t.tail...)
}

// managedEntry returns one managedFields entry. The entry shares set's memory.
func managedEntry(manager, subresource string, at metav1.Time, set []byte) metav1.ManagedFieldsEntry {
	fields := &metav1.FieldsV1{}
	fields.SetRawBytes(set)
	return metav1.ManagedFieldsEntry{
		Manager:     manager,
		Operation:   metav1.ManagedFieldsOperationUpdate,
		APIVersion:  "v1",
		Time:        &at,
		FieldsType:  "FieldsV1",
		FieldsV1:    fields,
		Subresource: subresource,
	}
}
