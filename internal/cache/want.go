package cache

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/resource"
)

// wanted is what one requirement of a selector says about a term: it has one of
// some values, or is absent; or, negated, none of that.
type wanted struct {
	term   resource.Term
	groups []string
	negate bool
}

// wants are the requirements of a query that an index can answer.
func wants(q *Query) []wanted {
	var all []wanted
	if q.Labels != nil {
		requirements, _ := q.Labels.Requirements()
		for i := range requirements {
			if w, ok := labelWant(&requirements[i]); ok {
				all = append(all, w)
			}
		}
	}
	if q.Fields != nil {
		for _, r := range q.Fields.Requirements() {
			if r.Field == "metadata.namespace" {
				continue // it stands in the key
			}
			if w, ok := (wanted{term: resource.FieldTerm(r.Field), negate: r.Operator == selection.NotEquals}).values(r.Value); ok {
				all = append(all, w)
			}
		}
	}
	return all
}

func labelWant(r *labels.Requirement) (wanted, bool) {
	w := wanted{term: resource.LabelTerm(r.Key())}
	switch r.Operator() {
	case selection.Exists, selection.DoesNotExist:
		w.groups, w.negate = []string{absentGroup + groupEnd}, r.Operator() == selection.Exists
		return w, true
	case selection.NotIn, selection.NotEquals:
		w.negate = true
		return w.values(r.ValuesUnsorted()...)
	case selection.In, selection.Equals, selection.DoubleEquals:
		return w.values(r.ValuesUnsorted()...)
	}
	return wanted{}, false
}

// values sets the groups of some values. It returns false for a value that has
// none.
func (w wanted) values(values ...string) (wanted, bool) {
	for _, v := range values {
		group, ok := valuePrefix(v)
		if !ok {
			return w, false
		}
		w.groups = append(w.groups, group)
	}
	slices.Sort(w.groups)
	w.groups = slices.Compact(w.groups)
	return w, true
}

// count is how many candidates an index has for a query.
func (w wanted) count(index Tree, q *Query) int {
	if w.negate {
		n := index.Len()
		for _, group := range w.groups {
			n -= index.Count(group)
		}
		return n
	}
	n := index.Count(unindexedGroup + groupEnd)
	for _, group := range w.groups {
		n += index.CountFrom(group+q.Prefix, group+q.From)
	}
	return n
}

// collect returns the candidates in the order of the index.
func (w wanted) collect(index Tree, q *Query) []*resource.Entry {
	var found []*resource.Entry
	take := func(from, end string) {
		index.walkRange(from, end, func(e *resource.Entry) {
			if strings.HasPrefix(e.Key, q.Prefix) && e.Key >= q.From {
				found = append(found, e)
			}
		})
	}
	if w.negate {
		from := ""
		for _, group := range w.groups {
			take(from, group)
			from = prefixEnd(group)
		}
		take(from, "")
		return found
	}
	for _, group := range append(w.groups, unindexedGroup+groupEnd) {
		take(max(group+q.Prefix, group+q.From), prefixEnd(group+q.Prefix))
	}
	return found
}
