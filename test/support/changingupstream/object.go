package changingupstream

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Object is an object as a server has sent it in JSON.
type Object struct {
	Namespace, Name, UID string
	Revision             int64
	content              map[string]any
}

// NewObject reads an object.
func NewObject(raw []byte) (*Object, error) {
	o := &Object{}
	if err := json.Unmarshal(raw, &o.content); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	metadata, _ := o.content["metadata"].(map[string]any)
	text := func(name string) string {
		s, _ := metadata[name].(string)
		return s
	}
	o.Namespace, o.Name, o.UID = text("namespace"), text("name"), text("uid")
	var err error
	if o.Revision, err = strconv.ParseInt(text("resourceVersion"), 10, 64); err != nil {
		return nil, fmt.Errorf("read object's revision: %w", err)
	}
	return o, nil
}

// WithRevision returns a copy of the object with another revision. The content is shared.
func (o *Object) WithRevision(revision int64) *Object {
	other := *o
	other.Revision = revision
	return &other
}

// canonical returns a text that is equal for equal objects. For a built-in object it leaves out
// kind and apiVersion, which the objects of a list do not have.
func (o *Object) canonical(builtIn bool) string {
	content := map[string]any{}
	for name, value := range o.content {
		if !builtIn || name != "kind" && name != "apiVersion" {
			content[name] = value
		}
	}
	metadata := map[string]any{}
	if given, ok := o.content["metadata"].(map[string]any); ok {
		for name, value := range given {
			metadata[name] = value
		}
	}
	metadata["resourceVersion"] = strconv.FormatInt(o.Revision, 10)
	content["metadata"] = metadata
	text, _ := json.Marshal(content)
	return string(text)
}

// List is a list as a server has sent it in JSON.
type List struct {
	Revision  int64
	Continue  string
	Remaining int64
	Objects   []*Object
}

// NewList reads a list.
func NewList(raw []byte) (*List, error) {
	var read struct {
		Metadata struct {
			ResourceVersion, Continue string
			RemainingItemCount        int64
		}
		Items []json.RawMessage
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	l := &List{Continue: read.Metadata.Continue, Remaining: read.Metadata.RemainingItemCount}
	var err error
	if l.Revision, err = strconv.ParseInt(read.Metadata.ResourceVersion, 10, 64); err != nil {
		return nil, fmt.Errorf("read list's revision: %w", err)
	}
	for _, item := range read.Items {
		o, err := NewObject(item)
		if err != nil {
			return nil, err
		}
		l.Objects = append(l.Objects, o)
	}
	return l, nil
}

// CheckEqual returns an error that names a different object, unless two lists have equal objects.
func (l *List) CheckEqual(other *List) error {
	theirs := map[string]string{}
	for _, o := range other.Objects {
		theirs[o.Namespace+"/"+o.Name] = o.canonical(true)
	}
	for _, o := range l.Objects {
		key := o.Namespace + "/" + o.Name
		if got, want := o.canonical(true), theirs[key]; got != want {
			return fmt.Errorf("%s: %s", key, describeDifference(got, want))
		}
		delete(theirs, key)
	}
	for key := range theirs {
		return fmt.Errorf("%s is missing", key)
	}
	return nil
}
