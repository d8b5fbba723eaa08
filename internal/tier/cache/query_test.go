package cache_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// thing is the stored form of the objects that these tests select.
type thing struct{ Labels, Fields map[string]string }

func describe(e *entry.Entry) error {
	var th thing
	if err := json.Unmarshal(e.Value, &th); err != nil {
		return err
	}
	e.Attributes = entry.NewAttributes(th.Labels, th.Fields)
	// In these tests an update gives an object another UID.
	e.UIDHash = entry.HashShardKey(fmt.Sprint(e.Key, e.Revision))
	return nil
}

func randomThing(r *rand.Rand) string {
	th := thing{Labels: map[string]string{}, Fields: map[string]string{"node": fmt.Sprint("n", r.IntN(40)), "phase": "Running"}}
	if r.IntN(10) == 0 {
		th.Fields["phase"] = "Failed"
	}
	if r.IntN(30) == 0 {
		th.Fields["node"] = "with\x00nul"
	}
	if r.IntN(3) > 0 {
		th.Labels["app"] = fmt.Sprint("a", r.IntN(20))
	}
	if r.IntN(20) == 0 {
		th.Labels["rare"] = ""
	}
	b, err := json.Marshal(th)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func randomThingKey(r *rand.Rand) string { return fmt.Sprintf("ns%d/o%04d", r.IntN(4), r.IntN(1000)) }

var selectors = []struct{ labels, fields string }{
	{"app=a3", ""}, {"app in (a1,a2)", ""}, {"app", ""}, {"!app", ""}, {"app!=a3", ""}, {"app notin (a1,a2)", ""}, {"rare", ""}, {"!rare", ""},
	{"rare=", ""}, {"", "node=n7"}, {"", "phase!=Running"}, {"", "phase=Running"}, {"", "node=n3,phase=Failed"}, {"app=a3", "node=n7"}, {"absent=x", ""},
	{"", "absent="}, {"", "absent!="}, {"", "metadata.name=o0001"}, {"", "metadata.namespace=ns1"}, {"", "metadata.namespace=ns1,node=n7"}, {"app=a3,rare", "phase!=Running"}, {"", "node=with\x00nul"},
}

// TestSelectAgreesWithWalking compares Select, which builds and uses indexes, with a match
// of each entry, at the newest and at old revisions, while objects change.
func TestSelectAgreesWithWalking(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	c := newCache(cache.Config{})
	res := c.Register(cache.Spec{Prefix: pods, Describe: describe})
	var kvs []feed.Object
	for i := range 4000 {
		kvs = append(kvs, object(fmt.Sprintf("%sns%d/o%04d", pods, i/1000, i%1000), randomThing(r), 5))
	}
	load(t, c, 10, kvs...)
	paths := map[cache.Path]int{}
	for revision := int64(11); revision < 400; revision++ {
		key := pods + randomThingKey(r)
		switch {
		case revision == 350:
			c.Apply(t.Context(), []feed.Object{put(key, "unreadable", revision)})
		case r.IntN(3) == 0:
			c.Apply(t.Context(), []feed.Object{remove(key, revision)})
		default:
			c.Apply(t.Context(), []feed.Object{put(key, randomThing(r), revision)})
		}
		snapshot := res.Snapshot()
		if revision > 20 && r.IntN(3) == 0 {
			var err error
			if snapshot, err = res.At(revision - r.Int64N(min(revision-11, 50))); err != nil {
				t.Fatal(err)
			}
		}
		paths[wantSelection(t, r, snapshot)]++
	}
	if paths[cache.PathIndex] < 50 || paths[cache.PathScan] == 0 || paths[cache.PathKey] == 0 || paths[cache.PathRange] == 0 {
		t.Errorf("paths taken: %v", paths)
	}
	if n := len(res.Indexes()); n == 0 || n > 8 {
		t.Errorf("%d indexes: %v", n, res.Indexes())
	}
}

// wantSelection compares one random query, and returns its path.
func wantSelection(t *testing.T, r *rand.Rand, snapshot cache.Snapshot) cache.Path {
	t.Helper()
	s := selectors[r.IntN(len(selectors))]
	q := &cache.Query{Limit: []int{0, 0, 0, 1, 7, 600, 5000}[r.IntN(7)]}
	if r.IntN(8) > 0 {
		q.Labels, q.Fields = mustLabels(t, s.labels), mustFields(t, s.fields)
	}
	if r.IntN(3) == 0 {
		q.Shard = randomShard(t, r)
	}
	switch r.IntN(6) {
	case 0:
		q.Prefix, q.Single = randomThingKey(r), true
	case 1:
		q.From = randomThingKey(r)
	case 2:
		q.Prefix = "ns2/"
		q.From = []string{"ns2/o0500", ""}[r.IntN(2)]
	}
	var want []string
	total, unreadable, more := 0, false, false
	for e := range snapshot.All("", "") {
		if q.Single && e.Key != q.Prefix || !q.Single && (!strings.HasPrefix(e.Key, q.Prefix) || e.Key < q.From) {
			continue
		}
		total++
		if q.Limit > 0 && len(want) == q.Limit {
			more = !q.Single
			continue
		}
		if unreadable = unreadable || e.Err != nil; e.Err == nil && q.Shard.Holds(e) && e.Matches(q.Labels, q.Fields) {
			want = append(want, e.Key)
		}
	}
	sel := snapshot.Select(q)
	var got []string
	for run := range sel.Runs {
		for _, e := range run.Entries[run.From:run.To] {
			got = append(got, e.Key)
		}
	}
	if sel.Opaque && unreadable {
		return sel.Plan.Path // a read would be passed on
	}
	if !slices.Equal(got, want) || sel.Count != len(want) || sel.More != more || sel.Total != total || sel.Opaque {
		t.Fatalf("labels %q, fields %q, %+v by %s %s:\n%d entries (Count %d, More %v, Total %d, Opaque %v)\nwant %d (More %v, Total %d)",
			s.labels, s.fields, *q, sel.Plan.Path, sel.Plan.Term, len(got), sel.Count, sel.More, sel.Total, sel.Opaque, len(want), more, total)
	}
	return sel.Plan.Path
}

// randomShard returns one of 2, 16, 64 or 1,000 equal shards, or of them and another one.
func randomShard(t *testing.T, r *rand.Rand) *entry.Shard {
	t.Helper()
	key := entry.ShardKey(r.IntN(int(entry.ShardKeys))).String()
	var ranges []sharding.ShardRangeRequirement
	for range 1 + r.IntN(2) {
		shards := []uint64{2, 16, 64, 1000}[r.IntN(4)]
		size := math.MaxUint64 / shards
		first := r.Uint64N(shards) * size
		ranges = append(ranges, sharding.ShardRangeRequirement{Key: key, Start: fmt.Sprintf("0x%016x", first), End: fmt.Sprintf("0x%016x", first+size)})
	}
	return mustShard(t, ranges...)
}

func mustShard(t testing.TB, ranges ...sharding.ShardRangeRequirement) *entry.Shard {
	t.Helper()
	s, err := entry.NewShard(sharding.NewSelector(ranges...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustLabels(t testing.TB, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustFields(t testing.TB, text string) fields.Selector {
	t.Helper()
	s, err := fields.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestIndexesComeAndGo follows an index from the queries that lead to it to the time when
// it has been unused for long.
func TestIndexesComeAndGo(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1e9, 0))
	var log bytes.Buffer
	c := newCache(cache.Config{Clock: clock, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	res := c.Register(cache.Spec{Prefix: pods, Describe: describe})
	var kvs []feed.Object
	for i := range 1000 {
		kvs = append(kvs, object(fmt.Sprintf("%so%04d", pods, i), fmt.Sprintf(`{"Labels":{"app":"a%d"}}`, i/10), 5))
	}
	load(t, c, 10, kvs...)
	ask := func(label string) cache.Plan {
		return res.Snapshot().Select(&cache.Query{Labels: mustLabels(t, label)}).Plan
	}
	if plan := ask("app=a1"); plan.Path != cache.PathScan || plan.Candidates != 1000 {
		t.Errorf("first: %+v", plan)
	}
	ask("app=a2")
	if plan := ask("app=a3"); plan.Path != cache.PathIndex || plan.Candidates != 10 || plan.Term != entry.LabelTerm("app") {
		t.Errorf("third: %+v", plan)
	}
	load(t, c, 11, kvs...)
	if plan := ask("app=a3"); plan.Path != cache.PathIndex || plan.Candidates != 10 {
		t.Errorf("after a load: %+v", plan)
	}
	for i := range 20 {
		for range 3 {
			ask(fmt.Sprintf("other%d=x", i))
		}
	}
	if n := len(res.Indexes()); n != 8 {
		t.Errorf("%d indexes, want 8", n)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	c.Apply(t.Context(), apply(put(pods+"o0001", `{}`, 20)))
	if n := len(res.Indexes()); n != 0 {
		t.Errorf("%d indexes after an hour, want none", n)
	}
	if text := log.String(); strings.Count(text, "Built an index") != 8 || strings.Count(text, "Dropped an index") != 8 || strings.Count(text, `term="label app"`) != 2 {
		t.Errorf("the logger received: %s", text)
	}
}

// TestShardIndex lists shards, which get an index if they are small enough.
func TestShardIndex(t *testing.T) {
	const objects = 4000
	c := newCache(cache.Config{})
	res := c.Register(cache.Spec{Prefix: pods, Describe: describe})
	var kvs []feed.Object
	for i := range objects {
		kvs = append(kvs, object(fmt.Sprintf("%sns%d/o%04d", pods, i%100, i), `{"Labels":{"app":"web"}}`, 5))
	}
	load(t, c, 10, kvs...)
	shardFrom := func(key entry.ShardKey, first, size uint64) *entry.Shard {
		return mustShard(t, sharding.ShardRangeRequirement{Key: key.String(), Start: fmt.Sprintf("0x%016x", first), End: fmt.Sprintf("0x%016x", first+size)})
	}
	for _, c := range []struct {
		name  string
		shard *entry.Shard
		query cache.Query
		// path is the path of the third list. most is the number of candidates that it must not
		// exceed.
		path cache.Path
		most int
	}{
		{"a large share", shardFrom(entry.ShardByUID, 0, 1<<62), cache.Query{}, cache.PathScan, objects},
		{"a small share", shardFrom(entry.ShardByUID, 1<<60, 1<<58), cache.Query{}, cache.PathIndex, 2 * objects / 64},
		{"another small share", shardFrom(entry.ShardByUID, 1<<63, 1<<60), cache.Query{}, cache.PathIndex, 2 * objects / 16},
		{"with a selector", shardFrom(entry.ShardByUID, 0, 1<<58), cache.Query{Labels: mustLabels(t, "app=web")}, cache.PathIndex, 2 * objects / 64},
		{"a small namespace", shardFrom(entry.ShardByUID, 0, 1<<58), cache.Query{Prefix: "ns3/"}, cache.PathScan, objects / 100},
		{"by namespace", shardFrom(entry.ShardByNamespace, entry.HashShardKey("ns3"), 1), cache.Query{}, cache.PathIndex, objects / 100},
	} {
		c.query.Shard = c.shard
		want := 0
		for e := range res.Snapshot().All(c.query.Prefix, "") {
			if c.shard.Holds(e) {
				want++
			}
		}
		ask := func() cache.Plan {
			sel := res.Snapshot().Select(&c.query)
			if sel.Count != want {
				t.Errorf("%s: %d objects, want %d", c.name, sel.Count, want)
			}
			return sel.Plan
		}
		ask()
		ask()
		if plan := ask(); plan.Path != c.path || plan.Candidates > c.most || plan.Candidates == 0 {
			t.Errorf("%s: %+v", c.name, plan)
		}
	}
}
