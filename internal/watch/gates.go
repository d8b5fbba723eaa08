package watch

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// gates find the subscriptions that an event may concern. Each subscription
// stands behind the narrowest gate of its selection: the key of one object, the
// values of a field, those of a label, a namespace, or none.
type gates struct {
	keys       group
	namespaces group
	terms      map[resource.Term]group
	open       map[*subscription]struct{}
}

// group are subscriptions by what stands in a key or an object.
type group map[string][]*subscription

func newGates() gates {
	return gates{keys: group{}, namespaces: group{}, terms: map[resource.Term]group{}, open: map[*subscription]struct{}{}}
}

// gate is where a selection stands.
type gate struct {
	// term is meant if byTerm is set, else keys or namespaces by single.
	byTerm, open bool
	term         resource.Term
	values       []string
}

func (s *Selection) gate() gate {
	if s.Single {
		return gate{values: []string{s.Prefix}}
	}
	if g, ok := fieldGate(s.Fields); ok {
		return g
	}
	if g, ok := labelGate(s.Labels); ok {
		return g
	}
	// A prefix that ends elsewhere than behind a namespace is not looked up.
	if strings.IndexByte(s.Prefix, '/') == len(s.Prefix)-1 && s.Prefix != "" {
		return gate{values: []string{s.Prefix}}
	}
	return gate{open: true}
}

func fieldGate(selector fields.Selector) (gate, bool) {
	if selector == nil {
		return gate{}, false
	}
	for _, r := range selector.Requirements() {
		if r.Operator != selection.NotEquals && r.Field != "metadata.namespace" {
			return gate{byTerm: true, term: resource.FieldTerm(r.Field), values: []string{r.Value}}, true
		}
	}
	return gate{}, false
}

func labelGate(selector labels.Selector) (gate, bool) {
	if selector == nil {
		return gate{}, false
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return gate{byTerm: true}, true // nothing is selected
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			return gate{byTerm: true, term: resource.LabelTerm(r.Key()), values: r.ValuesUnsorted()}, true
		}
	}
	return gate{}, false
}

// group returns where a gate's subscriptions are.
func (g *gates) group(of gate, single bool) group {
	switch {
	case of.byTerm:
		found := g.terms[of.term]
		if found == nil {
			found = group{}
			g.terms[of.term] = found
		}
		return found
	case single:
		return g.keys
	}
	return g.namespaces
}

func (g *gates) add(s *subscription) {
	at := s.gate()
	if at.open {
		g.open[s] = struct{}{}
		return
	}
	in := g.group(at, s.Single)
	for _, value := range at.values {
		in[value] = append(in[value], s)
	}
}

func (g *gates) remove(s *subscription) {
	at := s.gate()
	if at.open {
		delete(g.open, s)
		return
	}
	in := g.group(at, s.Single)
	for _, value := range at.values {
		in[value] = slices.DeleteFunc(in[value], func(o *subscription) bool { return o == s })
		if len(in[value]) == 0 {
			delete(in, value)
		}
	}
	if at.byTerm && len(in) == 0 {
		delete(g.terms, at.term)
	}
}

// each calls use with every subscription that an event may concern, with some
// more than once. The event is plain.
func (g *gates) each(e *cache.Event, use func(*subscription)) {
	key := e.Key()
	for s := range maps.Keys(g.open) {
		use(s)
	}
	g.keys.each(key, use)
	if len(g.namespaces) > 0 {
		g.namespaces.each(key[:strings.IndexByte(key, '/')+1], use)
	}
	for term, in := range g.terms {
		before, had := valueOf(term, e.Previous)
		after, has := valueOf(term, e.Entry)
		if had {
			in.each(before, use)
		}
		if has && (!had || after != before) {
			in.each(after, use)
		}
	}
}

func valueOf(term resource.Term, e *resource.Entry) (string, bool) {
	if e == nil {
		return "", false
	}
	return term.Value(e)
}

func (in group) each(value string, use func(*subscription)) {
	for _, s := range in[value] {
		use(s)
	}
}
