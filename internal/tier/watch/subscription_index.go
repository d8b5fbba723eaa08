package watch

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// subscriptionIndex finds the subscriptions that an event may concern. Each subscription
// is filed under one requirement of its filter: an object's key, else a field's value, else a
// label's values, else a namespace. A filter without such a requirement is unindexed and is
// found for every event. Under each requirement, subscriptions to shards are filed apart, by
// their ranges of hashes.
//
// Only this requirement of a filter is indexed. An event therefore finds some
// subscriptions that do not select it, and the caller matches each in full. In return adding
// and removing a subscription costs one map entry for each value, and no set operations are
// needed.
type subscriptionIndex struct {
	keys       subscriptionsByValue
	namespaces subscriptionsByValue
	terms      map[entry.Term]subscriptionsByValue
	unindexed  subscriptionGroup
}

// subscriptionsByValue are subscriptions by the value that they require. A value without
// subscriptions has no entry.
type subscriptionsByValue map[string]*subscriptionGroup

// subscriptionGroup is the subscriptions that are filed in one place.
type subscriptionGroup struct {
	// whole are the subscriptions without a shard.
	whole []*subscription
	// shards has the subscriptions to shards. It is nil before the first one.
	shards *shardIndexes
}

func newSubscriptionIndex() subscriptionIndex {
	return subscriptionIndex{
		keys:       subscriptionsByValue{},
		namespaces: subscriptionsByValue{},
		terms:      map[entry.Term]subscriptionsByValue{},
	}
}

func (g *subscriptionGroup) add(s *subscription) {
	if s.Shard == nil {
		g.whole = append(g.whole, s)
		return
	}
	if g.shards == nil {
		g.shards = &shardIndexes{}
	}
	g.shards[s.Shard.Key].add(s)
}

func (g *subscriptionGroup) remove(s *subscription) {
	if s.Shard != nil {
		g.shards[s.Shard.Key].remove(s)
		return
	}
	g.whole = slices.DeleteFunc(g.whole, func(o *subscription) bool { return o == s })
}

// empty reports whether the group has no subscription that an event could find.
func (g *subscriptionGroup) empty() bool {
	if g.shards != nil {
		for key := range g.shards {
			if len(g.shards[key].ranges) > 0 {
				return false
			}
		}
	}
	return len(g.whole) == 0
}

// visit calls use with the group's subscriptions that an event may concern.
func (g *subscriptionGroup) visit(e *cache.Event, use func(*subscription)) {
	for _, s := range g.whole {
		use(s)
	}
	if g.shards != nil {
		g.shards.visit(e, use)
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
	term   entry.Term
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

// fieldPlacement files a filter under the first field that the selector requires a value of.
// It returns false if there is none.
func fieldPlacement(selector fields.Selector) (placement, bool) {
	if selector == nil {
		return placement{}, false
	}
	for _, r := range selector.Requirements() {
		// The namespace begins the key: it needs no term.
		if r.Operator != selection.NotEquals && r.Field != "metadata.namespace" {
			return placement{kind: placedByTerm, term: entry.FieldTerm(r.Field), values: []string{r.Value}}, true
		}
	}
	return placement{}, false
}

// labelPlacement files a filter under the first label that the selector requires to have one
// of some values. It returns false if there is none.
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
			return placement{kind: placedByTerm, term: entry.LabelTerm(r.Key()), values: r.ValuesUnsorted()}, true
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
		idx.unindexed.add(s)
		return
	}
	byValue := idx.subscriptionsAt(p)
	for _, value := range p.values {
		if byValue[value] == nil {
			byValue[value] = &subscriptionGroup{}
		}
		byValue[value].add(s)
	}
}

func (idx *subscriptionIndex) remove(s *subscription) {
	p := s.placement()
	if p.kind == placedUnindexed {
		idx.unindexed.remove(s)
		return
	}
	byValue := idx.subscriptionsAt(p)
	for _, value := range p.values {
		group := byValue[value]
		if group.remove(s); group.empty() {
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
	idx.unindexed.visit(e, use)
	idx.keys.visit(key, e, use)
	if len(idx.namespaces) > 0 {
		idx.namespaces.visit(key[:strings.IndexByte(key, '/')+1], e, use)
	}
	for term, byValue := range idx.terms {
		before, hadValue := termValue(term, e.Previous)
		after, hasValue := termValue(term, e.Entry)
		if hadValue {
			byValue.visit(before, e, use)
		}
		if hasValue && (!hadValue || after != before) {
			byValue.visit(after, e, use)
		}
	}
}

// termValue returns an entry's value of a term, and whether it has one. A nil entry has none.
func termValue(term entry.Term, e *entry.Entry) (string, bool) {
	if e == nil {
		return "", false
	}
	return term.Value(e)
}

func (b subscriptionsByValue) visit(value string, e *cache.Event, use func(*subscription)) {
	if group := b[value]; group != nil {
		group.visit(e, use)
	}
}
