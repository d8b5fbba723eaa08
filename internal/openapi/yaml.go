package openapi

import (
	"bytes"
	"errors"
	"sort"

	"go.yaml.in/yaml/v3"
)

var errNotCompact = errors.New("read JSON: it is not as encoders write it")

// yamlOf is what a YAML parser makes of JSON without white space: gnostic reads
// documents as YAML and spends most of its time in the parser.
func yamlOf(document string, sorted bool) (*yaml.Node, error) {
	r := yamlReader{sorted: sorted}
	r.src = []byte(document)
	root := r.value()
	if r.odd || r.at != len(r.src) {
		return nil, errNotCompact
	}
	return root, nil
}

type yamlReader struct {
	tree
	// sorted mappings are in order of their keys.
	sorted bool
	// free are nodes that were made with others.
	free []yaml.Node
}

func (r *yamlReader) node(n yaml.Node) *yaml.Node {
	if len(r.free) == 0 {
		r.free = make([]yaml.Node, 64)
	}
	made := &r.free[0]
	r.free = r.free[1:]
	*made = n
	return made
}

func (r *yamlReader) value() *yaml.Node {
	if r.odd || r.at == len(r.src) {
		r.odd = true
		return nil
	}
	switch r.src[r.at] {
	case '{':
		node := r.node(yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle})
		r.entriesOf(node)
		return node
	case '[':
		node := r.node(yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle})
		r.array(func() { node.Content = append(node.Content, r.value()) })
		return node
	case '"':
		return r.stringNode()
	}
	from := r.at
	for r.at < len(r.src) && bytes.IndexByte([]byte(",]}"), r.src[r.at]) < 0 {
		r.at++
	}
	node := r.node(yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: string(r.src[from:r.at])})
	switch {
	case node.Value == "null":
		node.Tag = "!!null"
	case node.Value == "true" || node.Value == "false":
		node.Tag = "!!bool"
	case bytes.ContainsAny(r.src[from:r.at], ".eE"):
		node.Tag = "!!float"
	}
	return node
}

func (r *yamlReader) entriesOf(node *yaml.Node) {
	r.need('{')
	if r.odd || r.take('}') {
		return
	}
	for {
		key := r.stringNode()
		r.need(':')
		node.Content = append(node.Content, key, r.value())
		if !r.more('}') {
			break
		}
	}
	if r.sorted && !r.odd && !sort.IsSorted(byKey(node.Content)) {
		sort.Sort(byKey(node.Content))
	}
}

func (r *yamlReader) stringNode() *yaml.Node {
	plain, ok := unquote(r.text(r.string()))
	r.refuse(!ok)
	return r.node(yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: plain})
}

// byKey sorts the content of a mapping: keys and values in turn.
type byKey []*yaml.Node

func (b byKey) Len() int           { return len(b) / 2 }
func (b byKey) Less(i, j int) bool { return b[2*i].Value < b[2*j].Value }
func (b byKey) Swap(i, j int) {
	b[2*i], b[2*j] = b[2*j], b[2*i]
	b[2*i+1], b[2*j+1] = b[2*j+1], b[2*i+1]
}
