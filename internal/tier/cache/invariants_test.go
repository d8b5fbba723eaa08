package cache

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// describeValue makes the value a field, so that there is something to index.
func describeValue(e *entry.Entry) error {
	e.Attributes = entry.NewAttributes(nil, map[string]string{"value": string(e.Value)})
	return nil
}

// newIndexed makes a cache of 200 objects with an index.
func newIndexed(t *testing.T) (*Cache, *Resource) {
	t.Helper()
	c := New(Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	r := c.Register(Spec{Prefix: "/p/", Describe: describeValue})
	var kvs []feed.Object
	for i := range 200 {
		kvs = append(kvs, feed.Object{Key: fmt.Appendf(nil, "/p/%03d", i), Value: fmt.Append(nil, i%7), Revision: int64(i + 1)})
	}
	loader := c.BeginLoad()
	loader.Add(t.Context(), kvs)
	loader.End(t.Context(), 200)
	r.buildIndex(entry.FieldTerm("value"))
	c.Apply(t.Context(), []feed.Object{putEvent(201), putEvent(202)})
	return c, r
}

func putEvent(revision int64) feed.Object {
	return feed.Object{Key: []byte("/p/150"), Value: []byte("new"), Revision: revision}
}

// corruptions break one invariant each. The texts are parts of the messages.
var corruptions = map[string]func(*Resource, *state){
	"is not above":               func(_ *Resource, s *state) { e := s.tree.root.children[0].entries; e[3], e[4] = e[4], e[3] },
	"begins below its first key": func(_ *Resource, s *state) { s.tree.root.firstKeys[1] += "x" },
	"is not below":               func(_ *Resource, s *state) { s.tree.root.firstKeys[1] = "000" },
	"an inner node counts":       func(_ *Resource, s *state) { s.tree.root.count++ },
	"a leaf counts":              func(_ *Resource, s *state) { s.tree.root.children[0].count-- },
	"the limit is":               func(r *Resource, _ *state) { r.cfg.LeafObjects = 20 },
	"still mutable":              func(_ *Resource, s *state) { s.tree.root.edit = new(Edit) },
	"has no memo":                func(_ *Resource, s *state) { s.tree.root.children[0].memo = nil },
	"a leaf of an index has a memo": func(_ *Resource, s *state) {
		leaf := s.indexes[0].root
		for !leaf.leaf() {
			leaf = leaf.children[0]
		}
		leaf.memo = new(encode.Memo)
	},
	"totals are":       func(_ *Resource, s *state) { s.bytes++ },
	"has revision":     func(_ *Resource, s *state) { s.revision = 100 },
	"the tree has 200": func(_ *Resource, s *state) { s.indexes = []Tree{{order: s.indexes[0].order}} },
	"the tree's version": func(_ *Resource, s *state) {
		stale := *s.tree.Get("150")
		edit := s.indexes[0].Edit(nil)
		edit.Put(&stale)
		s.indexes[0] = edit.Tree()
	},
	"its events have":       func(r *Resource, _ *state) { r.log.mu.bytes++ },
	"the one before it has": func(r *Resource, _ *state) { r.log.mu.events[0].Revision = 300 },
	"the bound is":          func(r *Resource, _ *state) { r.log.bounds.maxBytes = 10 },
	"neither an entry": func(r *Resource, _ *state) {
		r.log.mu.events[0].Entry, r.log.mu.events[0].Previous = nil, nil
	},
}

// TestChecksFindCorruption breaks each invariant on purpose.
func TestChecksFindCorruption(t *testing.T) {
	t.Parallel()
	for message, corrupt := range corruptions {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			_, r := newIndexed(t)
			check := func() error {
				if err := r.state.Load().check(r.cfg.LeafObjects); err != nil {
					return err
				}
				return r.log.check()
			}
			if err := check(); err != nil {
				t.Fatalf("before the corruption: %v", err)
			}
			s := *r.state.Load()
			corrupt(r, &s)
			r.state.Store(&s)
			if err := check(); err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("the check says %v, want %q", err, message)
			}
		})
	}
}

// TestInvariantsFire corrupts a tree and applies a batch elsewhere in it.
func TestInvariantsFire(t *testing.T) {
	t.Parallel()
	if !invariantsEnabled {
		t.Skip("built without the tag invariants")
	}
	c, r := newIndexed(t)
	entries := r.state.Load().tree.root.children[0].entries
	entries[3], entries[4] = entries[4], entries[3]
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, `state of "/p/" at revision 203: tree: entry "003" is not above "004"`) {
			t.Errorf("Apply panicked with %q", text)
		}
	}()
	c.Apply(t.Context(), []feed.Object{putEvent(203)})
	t.Error("Apply did not notice that the tree is out of order")
}

// TestIndexMissesNoChange builds an index of a state that is not the newest any more. The
// index must agree with the tree, or must not be there.
func TestIndexMissesNoChange(t *testing.T) {
	for name, change := range map[string]func(*Cache, *Resource){
		"an event": func(c *Cache, _ *Resource) { c.Apply(t.Context(), []feed.Object{putEvent(203)}) },
		"an undecodable entry": func(c *Cache, r *Resource) {
			r.MarkUndecodable(c, r.state.Load().tree.Get("003"), errors.New("damaged"))
		},
		"a load of the same revision": func(c *Cache, _ *Resource) {
			loader, revision := c.BeginLoad(), c.Progress().Revision()
			loader.Add(t.Context(), []feed.Object{putEvent(100)})
			loader.End(t.Context(), revision)
		},
	} {
		c, r := newIndexed(t)
		r.state.Load().indexes = nil
		order := &indexOrder{term: entry.FieldTerm("value")}
		s := r.state.Load()
		built := sortedIndex(s.tree, order)
		change(c, r)
		r.addIndex(s, built, time.Now())
		current := r.state.Load()
		for _, index := range current.indexes {
			for e := range index.All("", "") {
				if current.tree.Get(e.Key) != e {
					t.Errorf("%s: the index has another version of %s than the tree", name, e.Key)
				}
			}
		}
		if logged := current.unlogged == s.unlogged; (len(current.indexes) == 1) != logged {
			t.Errorf("%s: %d indexes", name, len(current.indexes))
		}
	}
}
