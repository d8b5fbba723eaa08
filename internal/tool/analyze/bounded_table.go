package analyze

import (
	"cmp"
	"slices"
)

// boundedTable keeps rows by key. When there are limit rows, it drops the lighter half of them.
// Keys come from clients, so there may be any number of them.
//
// The table is lossy counting (Manku and Motwani, VLDB 2002) with weights. A key that was dropped
// starts at zero when it comes again, so its row lacks the earlier weight. Rows that are always
// heavier than the dropped rows are exact.
type boundedTable[K comparable, V any] struct {
	limit  int
	rows   map[K]*V
	weight func(*V) float64
	// drop is called with each row before the table drops it.
	drop func(K, *V)
}

func newBoundedTable[K comparable, V any](limit int, weight func(*V) float64, drop func(K, *V)) *boundedTable[K, V] {
	return &boundedTable[K, V]{limit: limit, rows: map[K]*V{}, weight: weight, drop: drop}
}

// row returns the row of a key. It adds a zero row for a new key.
func (t *boundedTable[K, V]) row(key K) *V {
	if v := t.rows[key]; v != nil {
		return v
	}
	if len(t.rows) >= t.limit {
		t.prune()
	}
	v := new(V)
	t.rows[key] = v
	return v
}

// prune drops the lighter half of the rows.
func (t *boundedTable[K, V]) prune() {
	weights := make([]float64, 0, len(t.rows))
	for _, v := range t.rows {
		weights = append(weights, t.weight(v))
	}
	slices.SortFunc(weights, cmp.Compare[float64])
	// Rows of the median weight are dropped, too, so at least half of the rows are.
	median := weights[len(weights)/2]
	for key, v := range t.rows {
		if t.weight(v) <= median {
			t.drop(key, v)
			delete(t.rows, key)
		}
	}
}
