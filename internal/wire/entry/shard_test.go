package entry_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	parser "k8s.io/apiserver/pkg/sharding"

	"github.com/millrace/millrace/internal/wire/entry"
)

func TestHashIsKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		value := make([]byte, n%60)
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		want := sharding.HashField(string(value))
		if got := fmt.Sprintf("%016x", entry.HashShardKey(value)); got != want {
			t.Fatalf("hash of %q is %s, want %s", value, got, want)
		}
		if got := fmt.Sprintf("%016x", entry.HashShardKey(string(value))); got != want {
			t.Fatalf("hash of the text %q is %s, want %s", value, got, want)
		}
	}
}

// mustShard parses a selector as Kubernetes does.
func mustShard(t *testing.T, text string) (*entry.Shard, sharding.Selector) {
	t.Helper()
	selector, err := parser.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := entry.NewShard(selector)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s, selector
}

// bound writes a hash as the end of a range.
func bound(hash uint64) string { return fmt.Sprintf("0x%016x", hash) }

// randomBound returns the end of a range. It often is the hash of one of the objects, or
// the one after it.
func randomBound(r *rand.Rand, hashes []uint64) string {
	switch r.IntN(6) {
	case 0:
		return bound(0)
	case 1:
		return "0x10000000000000000"
	case 2:
		return bound(r.Uint64())
	}
	hash := hashes[r.IntN(len(hashes))]
	if hash < math.MaxUint64 && r.IntN(2) == 0 {
		hash++
	}
	return bound(hash)
}

// TestShardHoldsWhatSelectorsMatch compares shards with Kubernetes' selectors.
func TestShardHoldsWhatSelectorsMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var entries []*entry.Entry
	var objects []*metav1.PartialObjectMetadata
	hashes := map[entry.ShardKey][]uint64{}
	for i := range 60 {
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("o", i), Namespace: fmt.Sprint("ns", i%7), UID: types.UID(fmt.Sprintf("%x", r.Uint64()))}}
		e := &entry.Entry{Key: obj.Namespace + "/" + obj.Name, UIDHash: entry.HashShardKey(string(obj.UID))}
		if i%7 == 0 {
			obj.Namespace, e.Key = "", obj.Name
		}
		entries, objects = append(entries, e), append(objects, obj)
		for key := range entry.ShardKeys {
			hashes[key] = append(hashes[key], key.Hash(e))
		}
	}
	held := 0
	for range 3000 {
		key := entry.ShardKey(r.IntN(int(entry.ShardKeys)))
		text := ""
		for range 1 + r.IntN(4) {
			start, end := randomBound(r, hashes[key]), randomBound(r, hashes[key])
			if !sharding.HexLess(start, end) {
				continue
			}
			if text != "" {
				text += " || "
			}
			text += fmt.Sprintf("shardRange(%s, '%s', '%s')", key, start, end)
		}
		if text == "" {
			continue
		}
		s, selector := mustShard(t, text)
		if s.Key != key || s.String() != selector.String() {
			t.Fatalf("%s became %s of %s", text, s, s.Key)
		}
		for i, e := range entries {
			want, err := selector.Matches(objects[i])
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Holds(e); got != want {
				t.Fatalf("%s holds %s with hash %x: %v, want %v", text, e.Key, key.Hash(e), got, want)
			}
			if want {
				held++
			}
		}
	}
	if held == 0 {
		t.Error("no shard held anything")
	}
}

func TestShardRanges(t *testing.T) {
	const key = "object.metadata.uid"
	half, whole := bound(1<<63), "0x10000000000000000"
	for _, c := range []struct {
		ranges [][2]string
		want   []entry.HashRange
		share  float64
	}{
		{[][2]string{{bound(0), whole}}, []entry.HashRange{{First: 0, Last: math.MaxUint64}}, 1},
		{[][2]string{{half, whole}, {bound(0), half}}, []entry.HashRange{{First: 0, Last: math.MaxUint64}}, 1},
		{[][2]string{{bound(5), bound(9)}, {bound(2), bound(5)}, {bound(3), bound(4)}}, []entry.HashRange{{First: 2, Last: 8}}, 7 / math.Exp2(64)},
		{[][2]string{{half, bound(3 << 62)}, {bound(0), bound(1)}}, []entry.HashRange{{First: 0, Last: 0}, {First: 1 << 63, Last: 3<<62 - 1}}, 0.25},
		{[][2]string{{half, whole}, {bound(math.MaxUint64), whole}}, []entry.HashRange{{First: 1 << 63, Last: math.MaxUint64}}, 0.5},
	} {
		var requirements []sharding.ShardRangeRequirement
		for _, r := range c.ranges {
			requirements = append(requirements, sharding.ShardRangeRequirement{Key: key, Start: r[0], End: r[1]})
		}
		s, err := entry.NewShard(sharding.NewSelector(requirements...))
		if err != nil || fmt.Sprint(s.Ranges()) != fmt.Sprint(c.want) || math.Abs(s.Share()-c.share) > 1e-12 {
			t.Errorf("%v: ranges %v, share %v (%v), want %v, %v", c.ranges, s.Ranges(), s.Share(), err, c.want, c.share)
		}
	}
}

func TestNoShard(t *testing.T) {
	for _, selector := range []sharding.Selector{nil, sharding.Everything()} {
		s, err := entry.NewShard(selector)
		if err != nil || s != nil || !s.Holds(&entry.Entry{}) || s.String() != "" {
			t.Errorf("%v became %v (%v)", selector, s, err)
		}
	}
}

func TestUnknownShards(t *testing.T) {
	for _, requirements := range [][]sharding.ShardRangeRequirement{
		{{Key: "object.metadata.name", Start: bound(0), End: bound(1)}},
		{{Key: "object.metadata.uid", Start: bound(0), End: bound(1)}, {Key: "object.metadata.namespace", Start: bound(0), End: bound(1)}},
		{{Key: "object.metadata.uid", Start: "0x0", End: bound(1)}},
		{{Key: "object.metadata.uid", Start: bound(0), End: "0000000000000001"}},
		{{Key: "object.metadata.uid", Start: bound(0), End: "0x_00000000000001"}},
		{{Key: "object.metadata.uid", Start: bound(1), End: bound(1)}},
	} {
		if s, err := entry.NewShard(sharding.NewSelector(requirements...)); !errors.Is(err, entry.ErrShard) {
			t.Errorf("%v became %v (%v)", requirements, s, err)
		}
	}
}
