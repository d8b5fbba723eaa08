package crds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// tree is a JSON value. Its members are in the order in which they were written.
type tree struct {
	// names are the names of an object's members, in parallel to items.
	names []string
	items []*tree
	// kind is '{', '[' or 0 for a scalar.
	kind byte
	// scalar is a string, a json.Number, a bool or nil.
	scalar any
}

// parse reads all JSON values in data, which follow one another.
func parse(data []byte) ([]*tree, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var all []*tree
	for {
		next, err := parseValue(d)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, next)
	}
}

func parseValue(d *json.Decoder) (*tree, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return &tree{scalar: token}, nil
	}
	n := &tree{kind: byte(open)}
	for d.More() {
		if n.kind == '{' {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			n.names = append(n.names, name.(string))
		}
		item, err := parseValue(d)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err = d.Token()
	return n, err
}

// member returns a member of an object, or nil if there is none.
func (n *tree) member(name string) *tree {
	if n == nil || n.kind != '{' {
		return nil
	}
	if i := slices.Index(n.names, name); i >= 0 {
		return n.items[i]
	}
	return nil
}

// at returns the value at a path of members, or nil if there is none.
func (n *tree) at(names ...string) *tree {
	for _, name := range names {
		n = n.member(name)
	}
	return n
}

// drop removes a member of an object.
func (n *tree) drop(name string) {
	if i := slices.Index(n.names, name); i >= 0 {
		n.names, n.items = slices.Delete(n.names, i, i+1), slices.Delete(n.items, i, i+1)
	}
}

// text returns the value of a string, and "" for other values.
func (n *tree) text() string {
	if n == nil {
		return ""
	}
	s, _ := n.scalar.(string)
	return s
}

// sorted sorts the members of all objects by name.
func (n *tree) sorted() *tree {
	for _, item := range n.items {
		item.sorted()
	}
	if n.kind == '{' {
		order := make([]int, len(n.names))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(n.names[a], n.names[b]) })
		names, items := make([]string, len(order)), make([]*tree, len(order))
		for to, from := range order {
			names[to], items[to] = n.names[from], n.items[from]
		}
		n.names, n.items = names, items
	}
	return n
}

// String prints one scalar in each line, with its path. So the first line that differs shows
// what differs.
func (n *tree) String() string {
	var b strings.Builder
	n.print(&b, "")
	return b.String()
}

func (n *tree) print(b *strings.Builder, path string) {
	switch {
	case n.kind == 0:
		value, _ := json.Marshal(n.scalar)
		fmt.Fprintf(b, "%s = %s\n", path, value)
	case len(n.items) == 0:
		fmt.Fprintf(b, "%s = %c\n", path, n.kind)
	}
	for i, item := range n.items {
		if n.kind == '{' {
			item.print(b, path+"."+n.names[i])
		} else {
			item.print(b, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}
