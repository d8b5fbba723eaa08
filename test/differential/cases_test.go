package differential

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/millrace/millrace/test/harness"
)

// fixture is what all cases share: two servers with objects of every kind.
// What only some cases need is made when the first of these asks for it.
type fixture struct {
	*pair
	objects *objectSet
	kinds   []*kind
	seed    uint64
	// now is etcd's revision before the first case.
	now int64
	// base has the revisions and tokens that every generator begins with, nil before
	// the first generator.
	base *requestGenerator
	// lost is what the compaction took, nil before it.
	lost *compaction
}

func startFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{seed: harness.Seed(t)}
	t.Logf("repeat with %s=%d", harness.SeedVariable, f.seed)
	f.pair = startPair(t)
	f.objects = newObjectSet(f.pair)
	f.objects.create()
	f.settle()
	f.kinds = discover(t, f.pair)
	survey(t, f.pair, f.kinds)
	if t.Failed() {
		t.FailNow()
	}
	f.now = f.revision()
	return f
}

// random is a case's own source: which other cases run does not change it.
func (f *fixture) random(t *testing.T) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(f.seed, hash.Sum64()))
}

// generator makes up requests for one case.
func (f *fixture) generator(t *testing.T) *requestGenerator {
	t.Helper()
	random := f.random(t)
	if f.base == nil {
		f.base = newRequestGenerator(t, f.pair, f.objects, f.kinds, random)
	}
	a := *f.base
	a.Rand = random
	return &a
}

// compactOnce has etcd drop what is old, once, and changes objects afterwards. The
// generator knows the revisions since. Kubernetes' caches take up to fifteen seconds to
// notice: cases that follow have that time.
func (f *fixture) compactOnce(t *testing.T) (*requestGenerator, compaction) {
	t.Helper()
	a := f.generator(t)
	if f.lost == nil {
		lost := f.compact(t, a)
		f.lost = &lost
		a.advance(t, f.pair, f.objects)
		f.base = a
	}
	return a, *f.lost
}

// testCase compares one part of the API.
type testCase struct {
	name string
	run  func(*testing.T, *fixture)
}

// cases are in the order in which they run. None needs another one to have run.
func cases() []testCase {
	all := []testCase{
		{"coverage", func(t *testing.T, f *fixture) { coverage(t, f.kinds) }},
		{"combined", func(t *testing.T, f *fixture) { f.agree(t, combined(f.kinds, f.random(t), f.now)) }},
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
		testCase{"matrix", func(t *testing.T, f *fixture) { f.matrix(t, f.generator(t)) }},
		testCase{"under writes", func(t *testing.T, f *fixture) {
			a, _ := f.compactOnce(t)
			f.underWrites(t, a)
		}},
	)
	for _, s := range settings {
		all = append(all, testCase{"settings/" + s.name, func(t *testing.T, f *fixture) { f.agreesWith(t, s, f.generator(t)) }})
	}
	return append(all,
		testCase{"served", func(t *testing.T, f *fixture) { f.served(t, f.kinds) }},
		testCase{"passed on", func(t *testing.T, f *fixture) { f.passedOn(t) }},
		testCase{"altered", func(t *testing.T, f *fixture) { f.alteredObjects(t, f.kinds, f.random(t)) }},
		testCase{"compacted", func(t *testing.T, f *fixture) {
			a, lost := f.compactOnce(t)
			f.compacted(t, a, lost)
		}},
	)
}

// requestVariable holds a request as a mismatch prints it.
const requestVariable = "MILLRACE_REQUEST"

// repeatRequest compares the one request that the variable holds.
func repeatRequest(t *testing.T, f *fixture) {
	r, err := parseRequest(os.Getenv(requestVariable))
	if err != nil {
		t.Fatalf("%s: %v", requestVariable, err)
	}
	f.agree(t, []request{r})
}
