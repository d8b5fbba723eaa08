package cache_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// model is a tree and the entries that it should hold.
type model struct {
	tree cache.Tree
	want map[string]*entry.Entry
}

func TestTreeAgainstMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			budget := encode.NewBudget(1 << 20)
			current := model{want: map[string]*entry.Entry{}}
			var old []model
			// The tree grows until inner nodes split, and shrinks until they merge.
			for _, deletions := range []int{2, 8, 5, 9, 1, 10} {
				for range 60 {
					current = current.edited(t, random, budget, deletions)
					old = append(old, current)
				}
				current.check(t, random)
				current.checkShape(t)
			}
			if current.tree.Len() != 0 {
				t.Fatalf("%d entries are left after deletions alone", current.tree.Len())
			}
			for _, m := range old {
				m.check(t, random)
			}
		})
	}
}

// edited applies a batch of random changes. On average, the number deletions of each ten
// changes are deletions.
func (m model) edited(t *testing.T, random *rand.Rand, budget *encode.Budget, deletions int) model {
	t.Helper()
	next := model{want: maps.Clone(m.want)}
	edit := m.tree.Edit(budget)
	present := slices.Sorted(maps.Keys(m.want))
	for range 100 + random.IntN(100) {
		if random.IntN(10) < deletions {
			key := randomKey(random)
			if len(present) > 0 && random.IntN(10) > 0 {
				key = present[random.IntN(len(present))]
			}
			if got := edit.Delete(key); got != next.want[key] {
				t.Fatalf("Delete(%s) = %v, want %v", key, got, next.want[key])
			}
			delete(next.want, key)
			continue
		}
		e := &entry.Entry{Key: randomKey(random)}
		if got := edit.Put(e); got != next.want[e.Key] {
			t.Fatalf("Put(%s) = %v, want %v", e.Key, got, next.want[e.Key])
		}
		next.want[e.Key] = e
	}
	next.tree = edit.Tree()
	return next
}

func randomKey(random *rand.Rand) string {
	return fmt.Sprintf("ns-%d/name-%d", random.IntN(12), random.IntN(2000))
}

// check compares lookups, walks and counts with the model.
func (m model) check(t *testing.T, random *rand.Rand) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(m.want))
	if m.tree.Len() != len(keys) {
		t.Fatalf("Len() = %d, want %d", m.tree.Len(), len(keys))
	}
	m.checkWalk(t, keys, "", "")
	for range 5 {
		prefix := fmt.Sprintf("ns-%d", random.IntN(14))
		if random.IntN(2) == 0 {
			prefix += "/"
		}
		m.checkWalk(t, keys, prefix, "")
		m.checkWalk(t, keys, prefix, randomKey(random))
		key := randomKey(random)
		if got := m.tree.Get(key); got != m.want[key] {
			t.Fatalf("Get(%s) = %v, want %v", key, got, m.want[key])
		}
	}
}

func (m model) checkWalk(t *testing.T, keys []string, prefix, from string) {
	t.Helper()
	var want, got []string
	for _, key := range keys {
		if strings.HasPrefix(key, prefix) && key >= from {
			want = append(want, key)
		}
	}
	for e := range m.tree.All(prefix, from) {
		if e != m.want[e.Key] {
			t.Fatalf("All(%q, %q) yields an old entry of %s", prefix, from, e.Key)
		}
		got = append(got, e.Key)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("All(%q, %q) yields %d keys, want %d", prefix, from, len(got), len(want))
	}
	if n := m.tree.CountFrom(prefix, from); n != len(want) {
		t.Fatalf("CountFrom(%q, %q) = %d, want %d", prefix, from, n, len(want))
	}
	if from == "" && m.tree.Count(prefix) != len(want) {
		t.Fatalf("Count(%q) = %d, want %d", prefix, m.tree.Count(prefix), len(want))
	}
}

// checkShape checks that no leaf is too large, and that deletions leave few small ones.
func (m model) checkShape(t *testing.T) {
	t.Helper()
	leaves := 0
	for run := range m.tree.Runs("") {
		leaves++
		if len(run.Entries) > 48 {
			t.Fatalf("a leaf holds %d entries, want at most 48", len(run.Entries))
		}
	}
	if most := m.tree.Len()/6 + 2; leaves > most {
		t.Fatalf("%d entries are in %d leaves, want at most %d: they are not merged", m.tree.Len(), leaves, most)
	}
}

func TestTreeWalkStops(t *testing.T) {
	t.Parallel()
	edit := cache.Tree{}.Edit(nil)
	for i := range 200 {
		edit.Put(&entry.Entry{Key: fmt.Sprintf("%03d", i)})
	}
	var got []string
	for e := range edit.Tree().All("", "100") {
		if got = append(got, e.Key); len(got) == 3 {
			break
		}
	}
	if want := []string{"100", "101", "102"}; !slices.Equal(got, want) {
		t.Fatalf("walk from 100 yields %v, want %v", got, want)
	}
}
