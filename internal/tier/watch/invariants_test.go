package watch

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// newCheckedHub makes a hub with three events and some watches: one of everything, which
// waits, one of a field, and two of a shard each.
func newCheckedHub(t *testing.T) (*cache.Cache, *Hub) {
	t.Helper()
	c := cache.New(cache.Config{})
	h := NewHub(c.Register(cache.Spec{Prefix: "/p/", Describe: func(e *entry.Entry) error {
		e.Attributes = entry.NewAttributes(nil, map[string]string{"node": string(e.Value)})
		return nil
	}}))
	c.BeginLoad().End(t.Context(), 10)
	lower, upper := uidShard(t, "0x0000000000000000", "0x8000000000000000"), uidShard(t, "0x8000000000000000", "0x10000000000000000")
	for _, s := range []Filter{{}, {Fields: fields.OneTermEqualSelector("node", "n1")}, {Shard: lower}, {Shard: upper}} {
		if _, err := h.Open(s, 10, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	for revision := int64(11); revision < 14; revision++ {
		c.Apply(t.Context(), putNode(revision))
	}
	cursor, err := h.Open(Filter{}, 13, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if _, more, err := cursor.Next([]encode.Change{}); more || err != nil {
		t.Fatal(more, err)
	}
	return c, h
}

func uidShard(t *testing.T, start, end string) *entry.Shard {
	t.Helper()
	s, err := entry.NewShard(sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: start, End: end}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func putNode(revision int64) []feed.Object {
	return []feed.Object{{Key: []byte("/p/a/x"), Value: []byte("n1"), Revision: revision}}
}

// all returns the subscription to everything, nodes the one to a node.
func (h *Hub) all() *subscription   { return h.mu.subscriptions[identity{}] }
func (h *Hub) nodes() *subscription { return h.mu.subscriptions[identity{fields: "node=n1"}] }

// corruptions break one invariant each. The texts are parts of the messages.
var corruptions = map[string]func(*Hub){
	"after the end":           func(h *Hub) { h.mu.opaqueEnd = h.mu.end + 1 },
	"is stored as":            func(h *Hub) { h.all().Prefix = "a/" },
	"still dispatched to":     func(h *Hub) { h.all().lost = true },
	"the one before it at":    func(h *Hub) { m := h.nodes().matches; m[0], m[1] = m[1], m[0] },
	"outside of":              func(h *Hub) { h.mu.end-- },
	"of which 1 wait":         func(h *Hub) { h.all().cursors = 0 },
	"has the index":           func(h *Hub) { h.all().waiting[0].waitingIndex = 1 },
	"has passed":              func(h *Hub) { h.all().waiting[0].next-- },
	"has 0 index entries":     func(h *Hub) { h.mu.index.remove(h.all()) },
	"has 2 index entries":     func(h *Hub) { h.mu.index.add(h.nodes()) },
	"open subscriptions have": func(h *Hub) { h.mu.index.keys["gone"] = &subscriptionGroup{whole: []*subscription{h.nodes()}} },
	"the one before it at 8": func(h *Hub) {
		r := h.mu.index.unindexed.shards[entry.ShardByUID].ranges
		r[0], r[1] = r[1], r[0]
	},
	"is not found by its last hash": func(h *Hub) { h.mu.index.unindexed.shards[entry.ShardByUID].ranges[1].largest = 0 },
}

// TestChecksFindCorruption breaks each invariant on purpose.
func TestChecksFindCorruption(t *testing.T) {
	for message, corrupt := range corruptions {
		t.Run(message, func(t *testing.T) {
			_, h := newCheckedHub(t)
			if err := h.checkLocked(); err != nil {
				t.Fatalf("before the corruption: %v", err)
			}
			corrupt(h)
			if err := h.checkLocked(); err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("the check says %v, want %q", err, message)
			}
		})
	}
}

// TestInvariantsFire corrupts a subscription and dispatches an event to it.
func TestInvariantsFire(t *testing.T) {
	if !invariantsEnabled {
		t.Skip("built without the tag invariants")
	}
	c, h := newCheckedHub(t)
	m := h.nodes().matches
	m[0], m[1] = m[1], m[0]
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "subscription to fields: node=n1: match 1 is at 1, the one before it at 2") {
			t.Errorf("Apply panicked with %q", text)
		}
	}()
	c.Apply(t.Context(), putNode(14))
	t.Error("Apply did not notice that matches are out of order")
}
