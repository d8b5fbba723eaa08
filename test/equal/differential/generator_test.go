package differential

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
)

// requestGenerator makes random requests: GET and LIST of every kind, in every
// way that the API has, most of them legal. The same seed makes the same
// requests as long as the objects and revisions are the same.
type requestGenerator struct {
	*rand.Rand
	kinds []*kind
	// pinned are revisions between which objects changed, in increasing order.
	pinned []int64
	// tokens are continue tokens by path.
	tokens map[string][]string
}

// query holds parameters in order. Names may occur several times.
type query [][2]string

func (q query) with(name, value string) query { return append(slices.Clone(q), [2]string{name, value}) }

func (q query) without(names ...string) query {
	return slices.DeleteFunc(slices.Clone(q), func(p [2]string) bool { return slices.Contains(names, p[0]) })
}

// withoutEmpty returns the query without empty parameters.
func (q query) withoutEmpty() query {
	return slices.DeleteFunc(slices.Clone(q), func(p [2]string) bool { return p[1] == "" })
}

func (q query) String() string {
	var parts []string
	for _, p := range q {
		parts = append(parts, p[0]+"="+url.QueryEscape(p[1]))
	}
	return strings.Join(parts, "&")
}

// once returns true once in n calls, on average.
func (gen *requestGenerator) once(n int) bool { return gen.IntN(n) == 0 }

func pick[T any](gen *requestGenerator, from ...T) T { return from[gen.IntN(len(from))] }

// bulky are the kinds with hundreds of objects. Lists of them are slow, and
// only they fill more than one leaf of the tree.
var bulky = []string{"pods", "configmaps", "secrets"}

// kind returns a random kind. It slightly prefers kinds with many objects.
func (gen *requestGenerator) kind() *kind {
	if gen.once(8) {
		if k := named(gen.kinds, pick(gen, bulky...)); k != nil {
			return k
		}
	}
	return pick(gen, gen.kinds...)
}

// onlyCustom returns a generator of requests for custom resources alone.
func (gen *requestGenerator) onlyCustom() *requestGenerator {
	only := gen.fork()
	only.kinds = slices.DeleteFunc(slices.Clone(gen.kinds), (*kind).builtin)
	return only
}

// request returns a random request.
func (gen *requestGenerator) request() request {
	k := gen.kind()
	if k.gets && len(k.keys) > 0 && gen.once(6) {
		return gen.get(k)
	}
	return gen.list(k)
}

// get returns a request for one object.
func (gen *requestGenerator) get(k *kind) request {
	wild := gen.once(5)
	r := request{path: k.path(pick(gen, k.keys...)), listPath: k.listPath("")}
	if wild && gen.once(3) {
		r.path = k.path(strings.TrimPrefix(pick(gen, namespaces...)+"/absent", map[bool]string{false: pick(gen, namespaces...) + "/"}[k.namespaced]))
	}
	var q query
	if gen.once(2) {
		q = q.with("resourceVersion", gen.version(wild))
	}
	if wild && gen.once(3) {
		q = q.with(pick(gen, "resourceVersionMatch", "limit", "labelSelector", "fieldSelector", "continue"), pick(gen, "Exact", "1", "app=web", "metadata.name=x"))
	}
	return gen.inSomeForm(r, q, wild)
}

// list returns a request for a collection. If wild is drawn, any parameter may
// be illegal.
func (gen *requestGenerator) list(k *kind) request {
	wild := gen.once(4)
	r := request{path: gen.scope(k, wild), listPath: k.listPath("")}
	var q query
	switch {
	case gen.once(8):
		q = q.with("continue", gen.token(r.path, wild))
		if gen.once(3) {
			q = q.with("resourceVersion", pick(gen, "0", "", gen.version(wild)))
		}
	default:
		q = gen.versions(q, wild)
	}
	// A later page at version 0 may or may not have a limit, depending on
	// Kubernetes' cache.
	if later := len(q) > 1 && q[0][0] == "continue"; !later && gen.once(2) {
		q = q.with("limit", gen.limit(wild))
	}
	q = gen.selectors(q, k, wild)
	if wild && gen.once(6) {
		q = q.with(pick(gen, "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "shardSelector", "unknown", "watch"), pick(gen, "0", "false"))
	}
	if wild && gen.once(8) && len(q) > 0 {
		q = append(q, pick(gen, q...))
	}
	gen.Shuffle(len(q), func(i, j int) { q[i], q[j] = q[j], q[i] })
	return gen.inSomeForm(r, q, wild)
}

// at returns a legal request for a collection at an exact revision.
func (gen *requestGenerator) at(k *kind, revision int64) (request, query) {
	r := request{path: gen.scope(k, false), listPath: k.listPath("")}
	q := query{{"resourceVersion", fmt.Sprint(revision)}, {"resourceVersionMatch", "Exact"}}
	return r, gen.selectors(q, k, false)
}

func (gen *requestGenerator) scope(k *kind, wild bool) string {
	switch {
	case !k.namespaced && !(wild && gen.once(6)):
		return k.listPath("")
	case wild && gen.once(4):
		return k.listPath(pick(gen, "nowhere", "default", "edge", "UPPER"))
	case gen.once(2):
		return k.listPath("")
	}
	return k.listPath(pick(gen, namespaces...))
}

var matches = []string{"Exact", "NotOlderThan"}

func (gen *requestGenerator) versions(q query, wild bool) query {
	if gen.once(2) {
		if wild && gen.once(3) {
			q = q.with("resourceVersionMatch", pick(gen, append(matches, "", "junk", "exact")...))
		}
		return q
	}
	version := gen.version(wild)
	q = q.with("resourceVersion", version)
	switch {
	case wild && gen.once(3):
		q = q.with("resourceVersionMatch", pick(gen, append(matches, "", "junk", "exact")...))
	case gen.once(2) && version != "":
		match := pick(gen, matches...)
		if version == "0" {
			match = "NotOlderThan"
		}
		q = q.with("resourceVersionMatch", match)
	}
	return q
}

// brokenVersions are not numbers, or not allowed ones. None is in the future,
// since a server waits seconds for such a revision.
var brokenVersions = []string{"-1", "abc", "1.5", "99999999999999999999", "0x7", " 7", "00", "007", "1e3", "٣", "+", "+7", "-0", "1_0"}

func (gen *requestGenerator) version(wild bool) string {
	switch {
	case wild && gen.once(2):
		return pick(gen, brokenVersions...)
	case gen.once(3):
		return pick(gen, "", "0", "0")
	case gen.once(10):
		return fmt.Sprint(1 + gen.Int64N(gen.pinned[0]))
	}
	return fmt.Sprint(pick(gen, gen.pinned...))
}

var brokenLimits = []string{"-1", "abc", "", "1.5", "99999999999999999999", "0x2", "+2"}

func (gen *requestGenerator) limit(wild bool) string {
	if wild && gen.once(2) {
		return pick(gen, brokenLimits...)
	}
	return pick(gen, "0", "1", "2", "2", "3", "7", "50", "500", "500", "9223372036854775807")
}

// token returns a continue token, of a list of the same path if one is known.
// If wild is set, it may belong to another list or be invalid.
func (gen *requestGenerator) token(path string, wild bool) string {
	if known := gen.tokens[path]; len(known) > 0 && !(wild && gen.once(2)) {
		return pick(gen, known...)
	}
	var others []string
	for _, tokens := range gen.tokens {
		others = append(others, tokens...)
	}
	slices.Sort(others)
	other := token(`{"v":"meta.k8s.io/v1","rv":1,"start":"x"}`)
	if len(others) > 0 {
		other = pick(gen, others...)
	}
	if !wild || gen.once(2) {
		return other
	}
	return pick(gen, other[:len(other)/2], other[:len(other)-1], other+"A", strings.ToLower(other), "abc", "",
		token(gen.tokenContent()), token(gen.tokenContent()), token(gen.tokenContent()))
}

// tokenContent returns a decoded token.
func (gen *requestGenerator) tokenContent() string {
	return strings.NewReplacer("NOW", fmt.Sprint(gen.pinned[len(gen.pinned)-1])).Replace(pick(gen, tokenContents...))
}

var tokenContents = []string{
	`{"v":"meta.k8s.io/v1","rv":NOW,"start":"team-b/"}`, `{"v":"meta.k8s.io/v1","rv":NOW,"start":"/team-b/bulk-1\u0000"}`,
	`{"v":"meta.k8s.io/v1","rv":-1,"start":"team-a/x"}`, `{"v":"meta.k8s.io/v1","rv":-2,"start":"a"}`, `{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`,
	`{"v":"meta.k8s.io/v1","rv":NOW,"start":""}`, `{"v":"meta.k8s.io/v1","rv":NOW}`, `{"v":"meta.k8s.io/v1","rv":NOW,"start":"../a"}`,
	`{"v":"meta.k8s.io/v1","rv":NOW,"start":"a/../../b"}`, `{"v":"meta.k8s.io/v2","rv":NOW,"start":"a"}`, `{"v":"meta.k8s.io/v1","rv":"1","start":"a"}`,
	`{"rv":NOW,"start":"a"}`, `{}`, `[]`, `null`, ``, `{"v":"meta.k8s.io/v1","rv":NOW,"start":"zzz"}`, `{"v":"meta.k8s.io/v1","rv":NOW,"start":"team-a"}`,
	`{"v":"meta.k8s.io/v1","rv":NOW,"start":"//"}`, `{"v":"meta.k8s.io/v1","rv":NOW,"start":"\u00ff"}`, `{"v":"meta.k8s.io/v1","rv":NOW,"start":"node-2\u0000"}`,
}

// inSomeForm chooses the encoding of the answer.
func (gen *requestGenerator) inSomeForm(r request, q query, wild bool) request {
	list := r.path == r.listPath || strings.HasSuffix(r.path, r.listPath[strings.LastIndex(r.listPath, "/"):])
	r.accept = gen.accept(list, wild)
	if strings.Contains(r.accept, "as=Table") && gen.once(2) || wild && gen.once(20) {
		object := pick(gen, "None", "Metadata", "Object", "")
		if wild && gen.once(2) {
			object = pick(gen, "junk", "none")
		}
		q = q.with("includeObject", object)
	}
	if gen.once(10) {
		q = q.with("pretty", pick(gen, "1", "true", "0", ""))
	}
	r.query = q.String()
	switch {
	case gen.once(4):
		r.encoding = "gzip"
	case gen.once(12):
		r.zstd, r.encoding = true, pick(gen, "", "gzip")
	case wild:
		r.encoding = pick(gen, dimensions[1]...)
	}
	if gen.once(12) {
		r.agent = pick(gen, dimensions[2]...)
	}
	if gen.once(20) {
		r.as = http1
	}
	return r
}
