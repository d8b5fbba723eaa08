package cache_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// TestDigestFollowsEveryChange compares caches that came to the same objects in different
// ways. They used events or a load, and registered a resource before or after that. Their
// digests must be equal, and those of each earlier revision what they were then.
func TestDigestFollowsEveryChange(t *testing.T) {
	t.Parallel()
	source := rand.New(rand.NewPCG(1, 2))
	c := newCache(cache.Config{HistoryEvents: 1000})
	c.Register(cache.Spec{Prefix: pods})
	load(t, c, 10, object(pods+"default/a", "1", 3), object("/registry/other/b", "1", 4))
	stored := map[string]feed.Object{pods + "default/a": object(pods+"default/a", "1", 3), "/registry/other/b": object("/registry/other/b", "1", 4)}
	then := map[int64]cache.Digest{}
	for revision := int64(11); revision < 300; revision++ {
		key := fmt.Sprintf("%sdefault/%d", []string{pods, "/registry/other/"}[source.IntN(2)], source.IntN(20))
		if stored[key].Key != nil && source.IntN(3) == 0 {
			c.Apply(t.Context(), apply(remove(key, revision)))
			delete(stored, key)
		} else {
			c.Apply(t.Context(), apply(put(key, "x", revision)))
			stored[key] = object(key, "x", revision)
		}
		d, at, err := c.Digest()
		if err != nil || at != revision {
			t.Fatalf("digest at %d: %v, at %d", revision, err, at)
		}
		then[revision] = d
	}
	for revision, want := range then {
		if got, err := c.DigestAt(revision); err != nil || got != want {
			t.Fatalf("digest at %d is %v (%v), and was %v", revision, got, err, want)
		}
	}
	if len(then) != len(unique(then)) {
		t.Error("two revisions have the same digest")
	}
	loaded := newCache(cache.Config{})
	var all []feed.Object
	for _, kv := range stored {
		all = append(all, kv)
	}
	slices.SortFunc(all, func(a, b feed.Object) int { return slices.Compare(a.Key, b.Key) })
	load(t, loaded, 299, all...)
	for _, registered := range []bool{false, true} {
		if got, _, err := loaded.Digest(); err != nil || got != then[299] {
			t.Errorf("registered %v: digest %v (%v), want %v", registered, got, err, then[299])
		}
		loaded.Register(cache.Spec{Prefix: pods})
	}
}

func unique(digests map[int64]cache.Digest) map[cache.Digest]bool {
	seen := map[cache.Digest]bool{}
	for _, d := range digests {
		seen[d] = true
	}
	return seen
}

// TestDigestOfRevisionsThatAreNotHeld asks for the future, and for what the log has lost.
func TestDigestOfRevisionsThatAreNotHeld(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	if _, _, err := c.Digest(); !errors.Is(err, cache.ErrNotReached) {
		t.Errorf("before the load: %v", err)
	}
	c.Register(cache.Spec{Prefix: pods})
	load(t, c, 10, object(pods+"a", "1", 3))
	c.Apply(t.Context(), apply(put(pods+"a", "2", 12)))
	if _, err := c.DigestAt(13); !errors.Is(err, cache.ErrNotReached) {
		t.Errorf("in the future: %v", err)
	}
	if _, err := c.DigestAt(9); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("before the load: %v", err)
	}
	if d, err := cache.ParseDigest((cache.Digest{High: 1, Low: 1 << 63}).String()); err != nil || d.High != 1 || d.Low != 1<<63 {
		t.Errorf("read back %v (%v)", d, err)
	}
	if _, err := cache.ParseDigest("x"); err == nil {
		t.Error("x is a digest")
	}
}

// TestDigestAroundADefinitionThatGoes asks for revisions at which a resource had objects that
// was released since, with its log, and then perhaps registered again.
func TestDigestAroundADefinitionThatGoes(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
		c := newCache(cache.Config{Clock: clock})
		r := c.Register(cache.Spec{Prefix: pods})
		load(t, c, 10)
		c.Apply(t.Context(), apply(put(pods+"a", "1", 11)))
		c.Apply(t.Context(), apply(remove(pods+"a", 12)))
		c.Release(r)
		if again {
			c.Register(cache.Spec{Prefix: pods})
		}
		for range 2 {
			if d, err := c.DigestAt(11); !errors.Is(err, cache.ErrExpired) {
				t.Errorf("registered again %v: while there was an object: %v (%v)", again, d, err)
			}
			if d, err := c.DigestAt(12); err != nil || d != (cache.Digest{}) {
				t.Errorf("registered again %v: behind it: %v (%v)", again, d, err)
			}
			clock.SetTime(clock.Now().Add(time.Hour))
			c.Expire() // forgets the release
		}
	}
}

func TestDigestTellsOfAChangedTree(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	load(t, c, 10, object(pods+"a", "1", 3), object(pods+"b", "1", 4))
	if !r.HoldsDigest() {
		t.Fatal("the objects are not those of the digest")
	}
	r.Snapshot().Get("a").Revision++ // a fault
	if r.HoldsDigest() {
		t.Error("the fault is not seen")
	}
}

// TestCompare finds what is missing, what is too much, what is of another revision and, with
// values, what has other bytes. It compares at the newest revision and at an older one.
func TestCompare(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	c.Register(cache.Spec{Prefix: pods + "inner/"})
	load(t, c, 10, object(pods+"a", "1", 3), object(pods+"b", "1", 4), object(pods+"c", "1", 5), object(pods+"inner/x", "1", 6))
	c.Apply(t.Context(), apply(put(pods+"d", "1", 11)))
	whole := cache.KeyRange{From: pods, End: "/registry/pods0"}
	inner := object(pods+"inner/x", "1", 6)
	for name, test := range map[string]struct {
		stored cache.StoredRange
		want   string
	}{
		"equal":          {cache.StoredRange{KeyRange: whole, Revision: 11, Objects: kvs(object(pods+"a", "1", 3), object(pods+"b", "1", 4), object(pods+"c", "1", 5), object(pods+"d", "1", 11), inner), Values: true}, "[]"},
		"equal before":   {cache.StoredRange{KeyRange: whole, Revision: 10, Objects: kvs(object(pods+"a", "1", 3), object(pods+"b", "1", 4), object(pods+"c", "1", 5), inner)}, "[]"},
		"different":      {cache.StoredRange{KeyRange: whole, Revision: 11, Objects: kvs(object(pods+"b", "1", 9), object(pods+"c", "2", 5), object(pods+"d", "1", 11), object(pods+"e", "1", 7)), Values: true}, "[/registry/pods/a (cache 3, etcd 0) /registry/pods/b (cache 4, etcd 9) /registry/pods/c (cache 5, etcd 5) /registry/pods/e (cache 0, etcd 7)]"},
		"without values": {cache.StoredRange{KeyRange: whole, Revision: 10, Objects: kvs(object(pods+"a", "", 3), object(pods+"b", "", 4), object(pods+"c", "", 5))}, "[]"},
		"part":           {cache.StoredRange{KeyRange: cache.KeyRange{From: pods + "b", End: pods + "c"}, Revision: 11}, "[/registry/pods/b (cache 4, etcd 0)]"},
	} {
		got, err := c.Compare(t.Context(), r, &test.stored)
		if text := fmt.Sprint(got); err != nil || text != test.want {
			t.Errorf("%s: got %s (%v), want %s", name, text, err, test.want)
		}
	}
}

// TestUnclaimedRanges walks over the keys that lie between registered resources, one of which
// is inside another.
func TestUnclaimedRanges(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	for _, prefix := range []string{pods, pods + "inner/", "/registry/zoo/"} {
		c.Register(cache.Spec{Prefix: prefix})
	}
	load(t, c, 10, object("/registry/a", "1", 1), object("/registry/b", "1", 2), object("/registry/c", "1", 3), object(pods+"a", "1", 4), object(pods+"inner/a", "1", 5), object("/registry/zoo/a", "1", 6))
	var found []cache.KeyRange
	for from, last := "", false; !last; {
		var keys cache.KeyRange
		keys, last = c.NextUnclaimedRange("/registry/", from, 2)
		found, from = append(found, keys), keys.End
	}
	want := []cache.KeyRange{{From: "/registry/", End: "/registry/c"}, {From: "/registry/c", End: pods}, {From: "/registry/pods0", End: "/registry/zoo/"}, {From: "/registry/zoo0", End: "/registry0"}}
	if !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}

func kvs(all ...feed.Object) []feed.Object { return all }

// TestReload replaces the objects of a resource whose cache has gone wrong, with a write on
// the way. Watches lose their place, and those that begin now go on.
func TestReload(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	other := c.Register(cache.Spec{Prefix: "/registry/other/"})
	load(t, c, 10, object(pods+"a", "1", 3), object(pods+"b", "1", 4), object("/registry/other/x", "1", 5))
	// The deletion of a at 11 and the creation of c at 12 are lost.
	c.Apply(t.Context(), apply(put(pods+"b", "2", 13)))
	position, _, err := r.Log().Since(10)
	if err != nil {
		t.Fatal(err)
	}
	l := c.BeginReload(r)
	l.Add(t.Context(), kvs(object(pods+"b", "2", 13), object(pods+"c", "1", 12)))
	if err := l.End(14); !errors.Is(err, cache.ErrNotReached) {
		t.Errorf("at a revision in the future: %v", err)
	}
	c.Apply(t.Context(), apply(put(pods+"d", "1", 14), remove(pods+"b", 15)))
	if err := l.End(13); err != nil {
		t.Fatal(err)
	}
	wantValues(t, "after the reload", r.Snapshot().Tree, map[string]string{"c": "1", "d": "1"})
	wantValues(t, "other resource", other.Snapshot().Tree, map[string]string{"x": "1"})
	if !r.HoldsDigest() {
		t.Error("the digest is wrong")
	}
	if _, _, _, err := r.Log().Read(position, make([]cache.Event, 1)); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("a watch goes on: %v", err)
	}
	c.Apply(t.Context(), apply(put(pods+"e", "1", 16)))
	wantRevisions(t, r.Log(), 15, 16)
	same := newCache(cache.Config{})
	load(t, same, 16, object("/registry/other/x", "1", 5), object(pods+"c", "1", 12), object(pods+"d", "1", 14), object(pods+"e", "1", 16))
	want, _, _ := same.Digest()
	if got, _, err := c.Digest(); err != nil || got != want {
		t.Errorf("digest %v (%v), want %v", got, err, want)
	}
}

// BenchmarkDigestAt undoes the events of ten seconds at 1,000 writes a second.
func BenchmarkDigestAt(b *testing.B) {
	c, _, revision := churnedCache(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.DigestAt(revision); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompare compares a page of 500 objects of 1.5 KB with etcd, with their values.
func BenchmarkCompare(b *testing.B) {
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	var all []feed.Object
	for i := range 2000 {
		key := fmt.Sprintf("%sns/pod-%06d", pods, i)
		all = append(all, object(key, strings.Repeat(key+" has text ", 40), int64(i+1)))
	}
	loader := c.BeginLoad()
	loader.Add(b.Context(), all)
	loader.End(b.Context(), 2000)
	page := cache.StoredRange{KeyRange: cache.KeyRange{From: string(all[500].Key), End: string(all[1000].Key)}, Revision: 2000, Objects: all[500:1000], Values: true}
	b.ReportAllocs()
	for b.Loop() {
		if found, err := c.Compare(b.Context(), r, &page); err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}

// BenchmarkHoldsDigest visits 100,000 objects.
func BenchmarkHoldsDigest(b *testing.B) {
	_, r, _ := churnedCache(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if !r.HoldsDigest() {
			b.Fatal("the digest is wrong")
		}
	}
}
