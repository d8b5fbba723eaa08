package watch

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// subscriptionIndex finds the subscriptions that an event may concern. Each subscription
// is filed under one requirement of its filter, the first that it has of these: the key
// of one object, the value of a field, the values of a label, a namespace. A filter
// without any of these is unindexed and is found for every event.
//
// Only one requirement of each filter is indexed. An event therefore finds some
// subscriptions that do not select it, and each is matched in full. In return adding and
// removing a subscription costs one map entry for each value, and no set operations are
// needed.
type subscriptionIndex struct {
	keys       subscriptionsByValue
	namespaces subscriptionsByValue
	terms      map[resource.Term]subscriptionsByValue
	unindexed  map[*subscription]struct{}
}

// subscriptionsByValue are subscriptions by the value that they require. A value without
// subscriptions has no entry.
type subscriptionsByValue map[string][]*subscription

func newSubscriptionIndex() subscriptionIndex {
	return subscriptionIndex{
		keys:       subscriptionsByValue{},
		namespaces: subscriptionsByValue{},
		terms:      map[resource.Term]subscriptionsByValue{},
		unindexed:  map[*subscription]struct{}{},
	}
}

// placementKind says in which map of the subscription index a filter is filed.
type placementKind uint8

const (
	// placedUnindexed has no values: the filter is found for every event.
	placedUnindexed placementKind = iota
	// placedByKey has one value, the key of the object that the filter selects.
	placedByKey
	// placedByNamespace has one value, the namespace with a slash.
	placedByNamespace
	// placedByTerm has the values of a term that the filter accepts. Without values the
	// filter selects nothing and is never found.
	placedByTerm
)

// placement says where a filter is filed.
type placement struct {
	kind placementKind
	// term is set with placedByTerm only.
	term   resource.Term
	values []string
}

// placement returns where the filter is filed. It is the same at each call, so remove
// finds what add has filed.
func (s *Filter) placement() placement {
	if s.Single {
		return placement{kind: placedByKey, values: []string{s.Prefix}}
	}
	if p, ok := fieldPlacement(s.Fields); ok {
		return p
	}
	if p, ok := labelPlacement(s.Labels); ok {
		return p
	}
	// Namespaces are looked up whole: any other prefix is unindexed.
	if strings.IndexByte(s.Prefix, '/') == len(s.Prefix)-1 && s.Prefix != "" {
		return placement{kind: placedByNamespace, values: []string{s.Prefix}}
	}
	return placement{kind: placedUnindexed}
}

// fieldPlacement returns false if the selector requires no field to have a value.
func fieldPlacement(selector fields.Selector) (placement, bool) {
	if selector == nil {
		return placement{}, false
	}
	for _, r := range selector.Requirements() {
		// The namespace begins the key: it needs no term.
		if r.Operator != selection.NotEquals && r.Field != "metadata.namespace" {
			return placement{kind: placedByTerm, term: resource.FieldTerm(r.Field), values: []string{r.Value}}, true
		}
	}
	return placement{}, false
}

// labelPlacement returns false if the selector requires no label to have one of some
// values.
func labelPlacement(selector labels.Selector) (placement, bool) {
	if selector == nil {
		return placement{}, false
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return placement{kind: placedByTerm}, true // the filter selects nothing
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			return placement{kind: placedByTerm, term: resource.LabelTerm(r.Key()), values: r.ValuesUnsorted()}, true
		}
	}
	return placement{}, false
}

// subscriptionsAt returns the map in which a placement is filed, by value. It makes the
// map if there is none yet. placedUnindexed has no map.
func (idx *subscriptionIndex) subscriptionsAt(p placement) subscriptionsByValue {
	switch p.kind {
	case placedByKey:
		return idx.keys
	case placedByNamespace:
		return idx.namespaces
	case placedByTerm:
		found := idx.terms[p.term]
		if found == nil {
			found = subscriptionsByValue{}
			idx.terms[p.term] = found
		}
		return found
	default:
		return nil
	}
}

func (idx *subscriptionIndex) add(s *subscription) {
	p := s.placement()
	if p.kind == placedUnindexed {
		idx.unindexed[s] = struct{}{}
		return
	}
	byValue := idx.subscriptionsAt(p)
	for _, value := range p.values {
		byValue[value] = append(byValue[value], s)
	}
}

func (idx *subscriptionIndex) remove(s *subscription) {
	p := s.placement()
	if p.kind == placedUnindexed {
		delete(idx.unindexed, s)
		return
	}
	byValue := idx.subscriptionsAt(p)
	for _, value := range p.values {
		byValue[value] = slices.DeleteFunc(byValue[value], func(o *subscription) bool { return o == s })
		if len(byValue[value]) == 0 {
			delete(byValue, value)
		}
	}
	if p.kind == placedByTerm && len(byValue) == 0 {
		delete(idx.terms, p.term)
	}
}

// visit calls use with every subscription that an event may concern, with some of them
// more than once. The event must not be opaque.
func (idx *subscriptionIndex) visit(e *cache.Event, use func(*subscription)) {
	key := e.Key()
	for s := range idx.unindexed {
		use(s)
	}
	idx.keys.visit(key, use)
	if len(idx.namespaces) > 0 {
		idx.namespaces.visit(key[:strings.IndexByte(key, '/')+1], use)
	}
	for term, byValue := range idx.terms {
		before, hadValue := termValue(term, e.Previous)
		after, hasValue := termValue(term, e.Entry)
		if hadValue {
			byValue.visit(before, use)
		}
		if hasValue && (!hadValue || after != before) {
			byValue.visit(after, use)
		}
	}
}

// termValue returns an entry's value of a term. A nil entry has none.
func termValue(term resource.Term, e *resource.Entry) (string, bool) {
	if e == nil {
		return "", false
	}
	return term.Value(e)
}

func (b subscriptionsByValue) visit(value string, use func(*subscription)) {
	for _, s := range b[value] {
		use(s)
	}
}
