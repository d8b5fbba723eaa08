package storage_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/sharding"
	apistorage "k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// shardOf8 is one of eight shards.
func shardOf8(i int) string {
	end := "0x10000000000000000"
	if i < 7 {
		end = fmt.Sprintf("0x%016x", uint64(i+1)<<61)
	}
	return fmt.Sprintf("shardRange(object.metadata.uid, '0x%016x', '%s')", uint64(i)<<61, end)
}

func (f *fixture) createWithUID(t *testing.T, name string) {
	t.Helper()
	pod := podNamed(name)
	pod.UID = types.UID("uid-of-" + name)
	must(t, caughtUpStore{f}.Create(t.Context(), "/pods/test/"+name, pod, &example.Pod{}, 0))
}

// TestShardsForHandlers lists and watches shards as Kubernetes' handlers do, and compares
// the answers with those of Kubernetes' store.
func TestShardsForHandlers(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ShardedListAndWatch, true)
	f := newFixture(t, setup{})
	for i := range 40 {
		f.createWithUID(t, fmt.Sprint("first-", i))
	}
	var all []string
	var watches []watch.Interface
	own := map[string]int{}
	for i := range 8 {
		selector, err := sharding.Parse(shardOf8(i))
		must(t, err)
		options := internalversion.ListOptions{ShardSelector: shardOf8(i)}
		list, err := f.listPage(t.Context(), "", "", options)
		must(t, err)
		if list.ShardInfo == nil || list.ShardInfo.Selector != shardOf8(i) {
			t.Errorf("shard %d: shardInfo %v", i, list.ShardInfo)
		}
		var listed []string
		for _, pod := range list.Items {
			listed, own[pod.Name] = append(listed, pod.Name), i
			if holds, err := selector.Matches(&pod); err != nil || !holds {
				t.Errorf("shard %d has %s (%v)", i, pod.Name, err)
			}
		}
		all = append(all, listed...)
		var paged []string
		for page := options; len(paged) <= len(listed); {
			page.Limit = 2
			list, err := f.listPage(t.Context(), "", "", page)
			must(t, err)
			for _, pod := range list.Items {
				paged = append(paged, pod.Name)
			}
			if page.Continue = list.Continue; page.Continue == "" {
				break
			}
		}
		if !slices.Equal(paged, listed) {
			t.Errorf("shard %d has %v on its pages, want %v", i, paged, listed)
		}
		predicate := apistorage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), GetAttrs: podAttributes, ShardSelector: selector}
		w, err := f.Watch(t.Context(), "/pods", apistorage.ListOptions{ResourceVersion: list.ResourceVersion, Predicate: predicate, Recursive: true})
		must(t, err)
		t.Cleanup(w.Stop)
		watches = append(watches, w)
	}
	if slices.Sort(all); len(slices.Compact(all)) != 40 {
		t.Errorf("the shards have %v", all)
	}
	for name, i := range own {
		must(t, f.Delete(t.Context(), "/pods/test/"+name, &example.Pod{}, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}))
		e, _ := next(t, watches[i])
		if deleted := e.Object.(runtime.CacheableObject).GetObject().(*example.Pod); e.Type != watch.Deleted || deleted.Name != name {
			t.Errorf("shard %d, deletion of %s: got %s of %s", i, name, e.Type, deleted.Name)
		}
	}
}

// TestShardsOffForHandlers: without the feature gate, a selector is ignored.
func TestShardsOffForHandlers(t *testing.T) {
	f := newFixture(t, setup{})
	f.createWithUID(t, "a")
	f.createWithUID(t, "b")
	none, err := sharding.Parse("shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')")
	must(t, err)
	list := &example.PodList{}
	predicate := apistorage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), GetAttrs: podAttributes, ShardSelector: none}
	must(t, f.GetList(context.Background(), "/pods", apistorage.ListOptions{Predicate: predicate, Recursive: true}, list))
	if len(list.Items) != 2 || list.ShardInfo != nil {
		t.Errorf("listed %d objects with shardInfo %v", len(list.Items), list.ShardInfo)
	}
}
