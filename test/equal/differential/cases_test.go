package differential

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// fixture is shared by all cases: two servers with objects of every kind. Parts
// that only some cases need are made when the first of these cases asks for
// them.
type fixture struct {
	*pair
	objects *objectSet
	kinds   []*kind
	seed    uint64
	// now is etcd's revision before the first case.
	now int64
	// base has the revisions and tokens that every generator begins with. It is
	// nil before the first generator.
	base *requestGenerator
	// lost describes what the compaction removed. It is nil before the
	// compaction.
	lost *compaction
}

func startFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{seed: harness.Seed(t), pair: startPair(t)}
	t.Logf("repeat with %s=%d", harness.SeedVariable, f.seed)
	f.fill(t, (*objectSet).create)
	return f
}

// fill creates objects of every kind.
func (f *fixture) fill(t *testing.T, create func(*objectSet)) {
	t.Helper()
	f.objects = newObjectSet(f.pair)
	create(f.objects)
	f.settle()
	f.older = newOlderObjects(t, f.etcd, f.seed)
	f.older.storeSome(t)
	f.settle()
	f.kinds = discover(t, f.pair)
	survey(t, f.pair, f.kinds)
	if t.Failed() {
		t.FailNow()
	}
	f.now = f.revision()
}

// random returns the random source of a case. It is seeded with the case's
// name, so that it does not depend on which other cases run.
func (f *fixture) random(t *testing.T) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(f.seed, hash.Sum64()))
}

// generator returns a request generator for one case.
func (f *fixture) generator(t *testing.T) *requestGenerator {
	t.Helper()
	random := f.random(t)
	if f.base == nil {
		f.base = newRequestGenerator(t, f.pair, f.objects, f.kinds, random)
	}
	gen := *f.base
	gen.Rand = random
	return &gen
}

// compactOnce compacts etcd at its first call, and changes objects afterwards.
// The returned generator knows only revisions since the compaction. Kubernetes'
// caches notice a compaction only after up to fifteen seconds; the cases in
// between use that time.
func (f *fixture) compactOnce(t *testing.T) (*requestGenerator, compaction) {
	t.Helper()
	gen := f.generator(t)
	if f.lost == nil {
		lost := f.compact(t, gen)
		f.lost = &lost
		gen.advance(t, f.pair, f.objects)
		f.base = gen
	}
	return gen, *f.lost
}

// testCase compares one part of the API.
type testCase struct {
	name string
	run  func(*testing.T, *fixture)
}

// cases returns the cases in the order in which they run. No case depends on
// another one.
func cases() []testCase {
	all := []testCase{
		{"coverage", func(t *testing.T, f *fixture) { coverage(t, f.kinds) }},
		{"combined", func(t *testing.T, f *fixture) {
			f.agree(t, combined(f.kinds, f.random(t), f.now, scaled(t, combinations)))
		}},
		{"older", func(t *testing.T, f *fixture) { f.older.areNormalized(t, f) }},
		{"subresources", func(t *testing.T, f *fixture) { f.agree(t, subresources(f.kinds)) }},
		{"denied", func(t *testing.T, f *fixture) { f.agree(t, denied(f.kinds)) }},
		{"missing", func(t *testing.T, f *fixture) { f.agree(t, missing(f.kinds)) }},
		{"methods", func(t *testing.T, f *fixture) { f.agree(t, otherMethods(f.kinds)) }},
		{"paths", func(t *testing.T, f *fixture) { f.agree(t, paths()) }},
		{"sizes", func(t *testing.T, f *fixture) { f.agree(t, sizes()) }},
		{"headers", func(t *testing.T, f *fixture) { f.agree(t, unusualHeaders()) }},
	}
	if os.Getenv(requestVariable) != "" {
		all = append(all, testCase{"request", repeatRequest})
	}
	for _, name := range []string{"configmaps", "pods", "events", "nodes", "widgets"} {
		all = append(all, testCase{"parameters/" + name, func(t *testing.T, f *fixture) {
			f.agree(t, parameterized(named(f.kinds, name), f.now))
		}})
	}
	all = append(all,
		testCase{"pages", func(t *testing.T, f *fixture) { f.pages(t) }},
		testCase{"tokens", func(t *testing.T, f *fixture) { f.tokens(t, f.kinds) }},
		testCase{"pages of one namespace", func(t *testing.T, f *fixture) { f.narrowed(t, f.kinds, f.now) }},
		testCase{"too new", func(t *testing.T, f *fixture) {
			var requests []request
			for _, name := range []string{"configmaps", "widgets", "events"} {
				requests = append(requests, tooNew(named(f.kinds, name))...)
			}
			f.agree(t, requests)
		}},
		testCase{"after writes", func(t *testing.T, f *fixture) { f.afterWrites(t, f.objects, f.kinds, f.random(t)) }},
		testCase{"watch", func(t *testing.T, f *fixture) { f.watch(t, f.generator(t)) }},
		testCase{"shards", func(t *testing.T, f *fixture) { f.shards(t, f.generator(t)) }},
		testCase{"shards off", func(t *testing.T, f *fixture) { f.shardsOff(t, f.generator(t)) }},
		testCase{"matrix", func(t *testing.T, f *fixture) { f.matrix(t, f.generator(t)) }},
		testCase{"under writes", func(t *testing.T, f *fixture) {
			gen, _ := f.compactOnce(t)
			f.underWrites(t, gen)
		}},
	)
	for _, s := range settings {
		all = append(all, testCase{"settings/" + s.name, func(t *testing.T, f *fixture) {
			gen, _ := f.compactOnce(t)
			f.agreesWith(t, s, gen)
		}})
	}
	for _, source := range []string{"etcd", "api", skew} {
		all = append(all, testCase{"replica/" + source, func(t *testing.T, f *fixture) { f.replica(t, source, f.generator(t)) }})
	}
	return append(all,
		testCase{"served", func(t *testing.T, f *fixture) { f.served(t, f.kinds) }},
		testCase{"passed on", func(t *testing.T, f *fixture) { f.passedOn(t) }},
		testCase{"altered", func(t *testing.T, f *fixture) { f.alteredObjects(t, f.kinds, f.random(t)) }},
		testCase{"compacted", func(t *testing.T, f *fixture) {
			gen, lost := f.compactOnce(t)
			f.compacted(t, gen, lost)
		}},
	)
}

// requestVariable holds a request in the form in which mismatches are printed.
const requestVariable = "MILLRACE_REQUEST"

// repeatRequest compares only the request in requestVariable.
func repeatRequest(t *testing.T, f *fixture) {
	r, err := parseRequest(os.Getenv(requestVariable))
	if err != nil {
		t.Fatalf("%s: %v", requestVariable, err)
	}
	f.agree(t, []request{r})
}
