package publish

import (
	"fmt"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// parseYAML parses compact JSON into the nodes that a YAML parser makes of it. Gnostic
// reads documents as YAML, and a YAML parser would take most of its time. With sorted,
// the keys of all objects are put in order.
//
// Upstream: github.com/google/gnostic-models/compiler.ReadInfoFromBytes; compare at each upgrade.
func parseYAML(document string, sorted bool) (*yaml.Node, error) {
	r := yamlReader{Lexer: storedjson.NewLexer([]byte(document)), sorted: sorted}
	root := r.value()
	if !r.Done() {
		return nil, fmt.Errorf("read JSON: %w", storedjson.ErrNotCanonical)
	}
	return root, nil
}

// yamlReader makes YAML nodes of canonical JSON.
type yamlReader struct {
	storedjson.Lexer
	// sorted puts the keys of mappings in order.
	sorted bool
	// free are nodes that were allocated together and are not used yet.
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
	switch r.Peek() {
	case '{':
		node := r.node(yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle})
		r.entriesOf(node)
		return node
	case '[':
		node := r.node(yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle})
		for ok := r.BeginList(); ok; ok = r.NextItem() {
			node.Content = append(node.Content, r.value())
		}
		return node
	case '"':
		return r.stringNode()
	}
	word := string(r.Value())
	node := r.node(yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: word})
	switch {
	case node.Value == "null":
		node.Tag = "!!null"
	case node.Value == "true" || node.Value == "false":
		node.Tag = "!!bool"
	case strings.ContainsAny(word, ".eE"):
		node.Tag = "!!float"
	}
	return node
}

func (r *yamlReader) entriesOf(node *yaml.Node) {
	for ok := r.BeginObject(); ok; ok = r.NextField() {
		key := r.stringNode()
		r.Expect(':')
		node.Content = append(node.Content, key, r.value())
	}
	if r.sorted && !r.Refused() && !sort.IsSorted(byKey(node.Content)) {
		sort.Sort(byKey(node.Content))
	}
}

func (r *yamlReader) stringNode() *yaml.Node {
	plain, ok := storedjson.Unquote(r.QuotedText())
	r.RefuseIf(!ok)
	return r.node(yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: plain})
}

// byKey sorts the content of a mapping, in which keys and values alternate.
type byKey []*yaml.Node

func (b byKey) Len() int           { return len(b) / 2 }
func (b byKey) Less(i, j int) bool { return b[2*i].Value < b[2*j].Value }
func (b byKey) Swap(i, j int) {
	b[2*i], b[2*j] = b[2*j], b[2*i]
	b[2*i+1], b[2*j+1] = b[2*j+1], b[2*i+1]
}
