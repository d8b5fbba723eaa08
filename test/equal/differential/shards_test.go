package differential

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
)

// firstHalf selects about half of all objects.
const firstHalf = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"

// brokenShardSelectors begins with selectors that Kubernetes refuses. The last ones are
// unusual, and it understands them.
var brokenShardSelectors = []string{
	"x", " ", "shardRange", "shardRange()", "shardRange(object.metadata.uid)", "shardRange(object.metadata.uid, '0x0', '0x8')", "true", "1", "'a'", "[]", "{", "||", "a || b", firstHalf + " ||", firstHalf + " && " + firstHalf, "!" + firstHalf,
	strings.Replace(firstHalf, "uid", "name", 1), strings.Replace(firstHalf, "object.", "", 1), strings.Replace(firstHalf, "object.metadata.uid", "object['metadata'].uid", 1), strings.Replace(firstHalf, "0x8", "0x0", 1),
	strings.Replace(firstHalf, "0x8", "0X8", 1), strings.Replace(firstHalf, "'0x8", "'8", 1), strings.Replace(firstHalf, "0x8", "0xF", 1), strings.Replace(firstHalf, "0x8", "0x10", 1), strings.Replace(firstHalf, "0x8", "0x20", 1),
	strings.Replace(firstHalf, "0x8000000000000000", "0x8", 1), strings.Replace(firstHalf, "'0x8000000000000000'", "9223372036854775808", 1), strings.Replace(firstHalf, ")", ", '')", 1), firstHalf + " || " + strings.Replace(firstHalf, "uid", "namespace", 1),
	"shardRange(object.metadata.uid, '0x10000000000000000', '0x10000000000000000')", "object.shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')", "shardrange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
	strings.ReplaceAll(firstHalf, " ", ""), strings.ReplaceAll(firstHalf, "'", `"`), " \t" + firstHalf + " \n", "(" + firstHalf + ")", strings.ReplaceAll(firstHalf, ".", " . "), firstHalf + " // a comment",
	firstHalf + " || " + firstHalf, firstHalf + "||(" + firstHalf + "||" + firstHalf + ")", strings.ReplaceAll(firstHalf, "'0x", "r'0x"), strings.ReplaceAll(firstHalf, "0x0000000000000000", `\u0030x0000000000000000`),
}

// shardSelector returns a selector of one or more of some shards.
func (gen *requestGenerator) shardSelector(wild bool) string {
	if wild && gen.once(2) {
		return pick(gen, brokenShardSelectors...)
	}
	key := pick(gen, "object.metadata.uid", "object.metadata.uid", "object.metadata.namespace")
	n := pick(gen, 1, 2, 2, 3, 4, 16)
	var parts []string
	for range 1 + gen.IntN(gen.IntN(3)+1) {
		parts = append(parts, shardRange(key, gen.IntN(n), n))
	}
	return strings.Join(parts, pick(gen, " || ", "||"))
}

// shardRange selects shard i of n equal ones.
func shardRange(key string, i, n int) string {
	size := math.MaxUint64/uint64(n) + 1
	end := "0x10000000000000000"
	if i < n-1 {
		end = fmt.Sprintf("0x%016x", uint64(i+1)*size)
	}
	return fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", key, uint64(i)*size, end)
}

// shards compares lists of shards: whole ones, pages, and refused ones. Random requests
// of other cases have shards too.
func (p *pair) shards(t *testing.T, gen *requestGenerator) {
	var all, watches []request
	for _, k := range gen.kinds {
		paths := []string{k.listPath("")}
		if k.namespaced {
			paths = append(paths, k.listPath(namespaces[0]))
		}
		for i, path := range paths {
			for j, accept := range []string{"", protobuf, kubectlGet, metadataClient} {
				q := query{{"shardSelector", gen.shardSelector(false)}}
				for n, way := range []query{q, q.with("resourceVersion", "0"), q.with("resourceVersion", fmt.Sprint(pick(gen, gen.pinned...))).with("resourceVersionMatch", "Exact"), q.with("labelSelector", "app=web"), q.with("fieldSelector", "metadata.name="+k.keys[0][strings.IndexByte(k.keys[0], '/')+1:])} {
					if (i+j+n)%2 == 0 {
						all = append(all, request{path: path, query: way.String(), listPath: k.listPath(""), accept: accept})
					}
				}
			}
		}
	}
	for _, resource := range []string{"pods", "nodes", "widgets", "events"} {
		k := named(gen.kinds, resource)
		for _, selector := range brokenShardSelectors {
			q := query{{"shardSelector", selector}}
			all = append(all, request{path: k.listPath(""), query: q.String(), listPath: k.listPath("")},
				request{path: k.path(k.keys[0]), query: q.String(), listPath: k.listPath("")})
			watches = append(watches, request{path: k.listPath(""), query: q.with("watch", "1").with("timeoutSeconds", "1").with("labelSelector", "absent").String(), listPath: k.listPath("")})
		}
	}
	t.Run("lists", func(t *testing.T) { p.agree(t, all) })
	t.Run("watches", func(t *testing.T) { p.watchesAgree(t, watches) })
	t.Run("metric", p.shardsCounted)
	t.Run("pages", func(t *testing.T) {
		for _, resource := range []string{"pods", "configmaps", "nodes", "widgets", "events"} {
			k := named(gen.kinds, resource)
			for _, n := range []int{2, 16} {
				limit := "2"
				if len(k.keys) > maxPages {
					limit = "13"
				}
				q := query{{"limit", limit}, {"shardSelector", shardRange("object.metadata.uid", gen.IntN(n), n)}}
				r := request{path: k.listPath(""), listPath: k.listPath(""), accept: "application/json"}
				p.walk(t, r, q, p.compare)
				p.walk(t, r, q.with("resourceVersion", fmt.Sprint(pick(gen, gen.pinned...))).with("resourceVersionMatch", "Exact"), p.compare)
			}
		}
	})
}

// shardsCounted checks that our server counts the open watches of shards. Kubernetes
// subtracts some of them twice: its count falls below zero.
func (p *pair) shardsCounted(t *testing.T) {
	const metric = `apiserver_watch_shards_total{group="",resource="nodes"} `
	count := func() (n int, err error) {
		a, err := p.ours.do(request{path: "/metrics"})
		if err == nil {
			if _, value, found := strings.Cut(string(a.body), metric); found {
				_, err = fmt.Sscan(value, &n)
			}
		}
		return n, err
	}
	want := func(n int) {
		p.until(fmt.Sprintf("%d watches", n), func() error {
			if got, err := count(); err != nil || got != n {
				return fmt.Errorf("%d are counted: %v", got, err)
			}
			return nil
		})
	}
	want(0)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	q := query{{"watch", "1"}, {"shardSelector", firstHalf}}
	if _, err := p.ours.open(ctx, watchRequest{request: request{path: "/api/v1/nodes", query: q.String()}}); err != nil {
		t.Fatal(err)
	}
	want(1)
	end()
	want(0)
}

// shardsOff compares servers that do not serve shards. They ignore the parameter.
func (p *pair) shardsOff(t *testing.T, gen *requestGenerator) {
	start := func(path string) *side {
		return newSide(t, startBeside(t, p.ours.Server, concat(everything, "--read-path="+path, "--feature-gates=ShardedListAndWatch=false")...))
	}
	off := &pair{tb: t, ours: start("millrace"), theirs: start("kubernetes"), etcd: p.etcd}
	off.until("custom resources", func() error { return off.catchUp(named(gen.kinds, "widgets").listPath("")) })
	var all []request
	for _, resource := range []string{"pods", "nodes", "widgets", "events"} {
		k := named(gen.kinds, resource)
		for _, selector := range append(brokenShardSelectors, gen.shardSelector(false), gen.shardSelector(false)) {
			for _, accept := range []string{"", protobuf} {
				q := query{{"shardSelector", selector}}
				all = append(all, request{path: k.listPath(""), query: q.String(), listPath: k.listPath(""), accept: accept},
					request{path: k.listPath(""), query: q.with("limit", "2").String(), listPath: k.listPath(""), accept: accept})
			}
		}
	}
	off.agree(t, all)
	a, err := off.ours.do(request{path: "/api/v1/nodes", query: query{{"shardSelector", "x"}}.String()})
	if err != nil || a.status != http.StatusOK {
		t.Errorf("a list with a selector that is ignored: status %d, %v", a.status, err)
	}
	off.expect(t, []request{{path: "/api/v1/nodes", query: query{{"shardSelector", firstHalf}}.String()}}, served("LIST", 1))
}
