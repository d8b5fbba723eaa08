package read_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/millrace/millrace/internal/wire/entry"
)

func serveShards(t testing.TB) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ShardedListAndWatch, true)
}

// shardSelector is the selector of shard i of n.
func shardSelector(i, n int) string {
	size := uint64(1) << 63 / uint64(n) * 2
	end := "0x10000000000000000"
	if i < n-1 {
		end = fmt.Sprintf("0x%016x", uint64(i+1)*size)
	}
	return fmt.Sprintf("shardRange(object.metadata.uid, '0x%016x', '%s')", uint64(i)*size, end)
}

func shardParameter(i, n int) string { return "shardSelector=" + url.QueryEscape(shardSelector(i, n)) }

// shardOf is the shard, of n, in which an object is.
func shardOf(key string, n int) int {
	size := uint64(1) << 63 / uint64(n) * 2
	return min(n-1, int(entry.HashShardKey(uidOf(key))/size))
}

// TestListOfShards lists all shards, which must have all objects together.
func TestListOfShards(t *testing.T) {
	serveShards(t)
	const n = 16
	env := newTestTier(t)
	keys := keysOf(1000)
	env.load(t, keys...)
	for accept, named := range map[string]bool{"application/json": true, metadataListAccept: false, tableAccept: false} {
		for i := range n {
			w := env.send(t, http.MethodGet, listPath+"?"+shardParameter(i, n), http.Header{"Accept": {accept}})
			type object struct {
				Metadata struct{ Namespace, Name string }
			}
			var list struct {
				Metadata struct{ ShardInfo *struct{ Selector string } }
				Items    []object
				Rows     []struct{ Object object }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, r := range list.Rows {
				list.Items = append(list.Items, r.Object)
			}
			for _, obj := range list.Items {
				got = append(got, obj.Metadata.Namespace+"/"+obj.Metadata.Name)
			}
			for _, key := range keys {
				if shardOf(key, n) == i {
					want = append(want, key)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, shard %d: got %v, want %v", accept, i, got, want)
			}
			if info := list.Metadata.ShardInfo; (info != nil) != named || named && info.Selector != shardSelector(i, n) {
				t.Errorf("%s, shard %d: shardInfo %v", accept, i, info)
			}
		}
	}
	env.tier.SetAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer())
	plan := env.send(t, http.MethodGet, listPath+"?"+shardParameter(0, n), http.Header{"X-Millrace-Explain": {"1"}}).Header().Get("X-Millrace-Plan")
	if !strings.HasPrefix(plan, "index of shard object.metadata.uid; candidates=") {
		t.Errorf("the plan is %q", plan)
	}
}

// TestShardParameter sends selectors that Kubernetes refuses, and one with the feature off.
func TestShardParameter(t *testing.T) {
	for _, selector := range []string{"x", " ", "shardRange(object.metadata.name,'0x0000000000000000','0x8000000000000000')", "shardRange(object.metadata.uid,'0x0','0x8')"} {
		for _, served := range []bool{false, true} {
			t.Run(fmt.Sprint(selector, served), func(t *testing.T) {
				if served {
					serveShards(t)
				}
				env := newTestTier(t)
				env.load(t, "one/a", "one/b")
				w := env.send(t, http.MethodGet, listPath+"?shardSelector="+url.QueryEscape(selector), nil)
				if want := map[bool]int{false: http.StatusOK, true: passedOnStatus}[served]; w.Code != want {
					t.Errorf("status %d, want %d", w.Code, want)
				}
				if strings.Contains(w.Body.String(), "shardInfo") {
					t.Errorf("a list that ignores the selector tells of it: %s", w.Body)
				}
				if reasons := env.reasons(t); served != (reasons["parameter"] == 1) {
					t.Errorf("counted %v", reasons)
				}
			})
		}
	}
}

// TestWatchOfShards watches all shards. Each object's events come to the watch of its
// shard alone.
func TestWatchOfShards(t *testing.T) {
	serveShards(t)
	const n = 4
	env := newWatchServer(t, true)
	keys := keysOf(40)
	env.load(t, keys...)
	var streams []*stream
	for i := range n {
		s := env.watch(t, listPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&"+shardParameter(i, n), nil)
		streams = append(streams, s)
		for j, key := range keys {
			if shardOf(key, n) == i {
				s.want(t, fmt.Sprintf("ADDED %s %d", strings.TrimPrefix(key, "one/"), j+1))
			}
		}
		s.want(t, fmt.Sprintf("BOOKMARK  %d", cacheRevision))
	}
	for round := range 3 {
		for j, key := range keys {
			revision := int64(cacheRevision + 1 + round*len(keys) + j)
			env.put(t, key, "x", revision)
			streams[shardOf(key, n)].want(t, fmt.Sprintf("MODIFIED %s %d", strings.TrimPrefix(key, "one/"), revision))
		}
	}
	// Without the parameter, a watch has all events.
	whole := env.watch(t, fmt.Sprintf("%s?watch=1&resourceVersion=%d", listPath, cacheRevision), nil)
	for j, key := range keys {
		whole.want(t, fmt.Sprintf("MODIFIED %s %d", strings.TrimPrefix(key, "one/"), cacheRevision+1+j))
	}
}
