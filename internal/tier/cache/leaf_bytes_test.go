package cache_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// leafBytes is a cache of small leaves, whose wire bytes are kept in a budget that never
// evicts any.
type leafBytes struct {
	*testing.T
	cache    *cache.Cache
	resource *cache.Resource
	budget   *encode.Budget
	form     *encode.Form
	revision int64
	random   *rand.Rand
}

func newLeafBytes(t *testing.T, seed uint64) *leafBytes {
	t.Helper()
	budget := encode.NewBudget(64 << 20)
	form, err := encode.NewForm(encode.Config{
		Name: "v1 json", Framing: encode.JSON, MediaType: "application/json", Budget: budget,
		Decode: func(e *entry.Entry) (runtime.Object, error) {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: e.Key, ResourceVersion: fmt.Sprint(e.Revision)}}, nil
		},
		List:    encode.PlainList(func() runtime.Object { return &metav1.PartialObjectMetadataList{} }),
		Encoder: json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil, json.SerializerOptions{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := form.SetModel(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "model"}}); err != nil {
		t.Fatal(err)
	}
	c := newCache(cache.Config{Budget: budget, LeafObjects: 8})
	f := &leafBytes{T: t, cache: c, budget: budget, form: form, random: rand.New(rand.NewPCG(seed, 1))}
	f.resource = c.Register(cache.Spec{Prefix: pods})
	f.load(0)
	return f
}

// load replaces everything by some objects.
func (f *leafBytes) load(objects int) {
	f.revision++
	kvs := make([]feed.Object, objects)
	for i := range kvs {
		kvs[i] = object(pods+podName(i), "loaded", f.revision)
	}
	load(f.T, f.cache, f.revision, kvs...)
}

func podName(i int) string { return fmt.Sprintf("a/%03d", i) }

// change puts or deletes objects of 150 names, as one batch.
func (f *leafBytes) change(changes, deletionPercent int) {
	events := make([]feed.Object, changes)
	for i := range events {
		f.revision++
		key := pods + podName(f.random.IntN(150))
		if f.random.IntN(100) < deletionPercent {
			events[i] = remove(key, f.revision)
		} else {
			events[i] = put(key, fmt.Sprint("value ", f.revision), f.revision)
		}
	}
	f.cache.Apply(f.Context(), events)
}

// read lists all objects, which encodes the leaves that are not encoded yet.
func (f *leafBytes) read(encoding encode.Encoding) {
	f.Helper()
	snapshot := f.resource.Snapshot()
	list := &encode.List{Form: f.form, Runs: snapshot.Runs(""), Empty: snapshot.Len() == 0}
	if err := list.Write(io.Discard, encoding); err != nil {
		f.Fatal(err)
	}
}

// readOne gets one object, whose bytes are kept until its whole leaf is encoded.
func (f *leafBytes) readOne() {
	f.Helper()
	if run, ok := f.resource.Snapshot().Find(podName(f.random.IntN(150))); ok {
		if _, err := f.form.Object(run); err != nil {
			f.Fatal(err)
		}
	}
}

// kept returns the bytes that the leaves of the newest tree keep. It checks the resource's
// totals on the way.
func (f *leafBytes) kept(when string) int64 {
	f.Helper()
	u := f.resource.Usage()
	var objects int
	var values int64
	for e := range f.resource.Snapshot().All("", "") {
		objects++
		values += int64(len(e.Value))
	}
	if u.Objects != objects || u.Values != values {
		f.Fatalf("%s: usage has %d objects of %d bytes, the tree has %d of %d", when, u.Objects, u.Values, objects, values)
	}
	return u.Forms["v1 json"]
}

// TestLeafBytesAreGivenBack changes leaves of which all wire bytes are kept: it replaces
// entries, splits leaves, merges them, empties them, and removes the last. The budget must
// never count bytes of leaves that are gone.
func TestLeafBytesAreGivenBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			f := newLeafBytes(t, seed)
			// The tree grows, stays about as large, shrinks, and grows again.
			for round, deletionPercent := range []int{0, 10, 50, 50, 80, 95, 95, 20} {
				for step := range 12 {
					when := fmt.Sprintf("round %d, step %d", round, step)
					for range 1 + f.random.IntN(3) { // bytes are inherited over several changes
						before := f.budget.UsedBytes()
						f.change(1+f.random.IntN(20), deletionPercent)
						if used := f.budget.UsedBytes(); used > before {
							t.Fatalf("%s: a change made the budget grow from %d to %d bytes, but encodes nothing", when, before, used)
						}
						f.readOne()
					}
					f.read([]encode.Encoding{encode.Identity, encode.Gzip}[f.random.IntN(2)])
					if used, kept := f.budget.UsedBytes(), f.kept(when); used != kept {
						t.Fatalf("%s: the budget counts %d bytes, the leaves keep %d", when, used, kept)
					}
				}
			}
			if f.budget.UsedBytes() == 0 {
				t.Fatal("nothing is kept before the last object is deleted")
			}
			f.removeAll()
			if used := f.budget.UsedBytes(); used != 0 {
				t.Errorf("%d bytes are kept of a resource without objects", used)
			}
			f.load(100)
			f.read(encode.Identity)
			if used, kept := f.budget.UsedBytes(), f.kept("after a load"); used != kept || kept == 0 {
				t.Errorf("after a load, the budget counts %d bytes, the leaves keep %d", used, kept)
			}
			f.load(50)
			if used := f.budget.UsedBytes(); used != 0 {
				t.Errorf("%d bytes are kept of objects that a load has replaced", used)
			}
		})
	}
}

// removeAll deletes each object in a batch of its own, so that leaves are merged and emptied
// while their bytes are kept.
func (f *leafBytes) removeAll() {
	f.Helper()
	for e := range f.resource.Snapshot().All("", "") {
		f.read(encode.Identity)
		f.revision++
		f.cache.Apply(f.Context(), apply(remove(pods+e.Key, f.revision)))
		if f.resource.Snapshot().Get(e.Key) != nil {
			f.Fatalf("%s is still there", e.Key)
		}
	}
}
