package differential

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	rounds         = 6
	writesPerRound = 25
)

// afterWrites changes objects and compares again. Answers then consist of
// cached bytes and new bytes.
func (p *pair) afterWrites(t *testing.T, f *objectSet, kinds []*kind, random *rand.Rand) {
	rows := allPairs(random)
	changed := []*kind{named(kinds, "configmaps"), named(kinds, "pods"), named(kinds, "secrets")}
	for round := range rounds {
		for _, k := range changed {
			f.change(t, k, random, round)
		}
		now := p.revision()
		var requests []request
		for _, k := range changed {
			for _, r := range k.reads(random) {
				list := !strings.Contains(strings.TrimPrefix(r.path, k.listPath(namespaces[0])), "/") || r.path == r.listPath
				requests = append(requests, r, with(r, func(r *request) { r.accept, r.encoding = protobuf, "gzip" }))
				for range 4 {
					requests = append(requests, rows[random.IntN(len(rows))].apply(r, list, now))
				}
			}
		}
		p.agree(t, requests)
	}
}

// change updates, deletes and creates objects of a kind.
func (f *objectSet) change(t *testing.T, k *kind, random *rand.Rand, round int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	for i := range writesPerRound {
		at := random.IntN(len(k.keys))
		ns, name, _ := strings.Cut(k.keys[at], "/")
		client := f.client.Resource(k.gvr).Namespace(ns)
		var err error
		switch what := random.IntN(4); {
		case what == 0 && len(k.keys) > copies:
			zero := int64(0)
			err = client.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
			k.keys = append(k.keys[:at], k.keys[at+1:]...)
		case what == 1:
			made, getErr := client.Get(ctx, name, metav1.GetOptions{})
			if getErr != nil {
				t.Fatalf("get %s: %v", k.keys[at], getErr)
			}
			made.SetName(fmt.Sprintf("%s-%d-%d", name, round, i))
			made.SetResourceVersion("")
			made.SetUID("")
			_, err = client.Create(ctx, made, metav1.CreateOptions{})
			k.keys = append(k.keys, ns+"/"+made.GetName())
		default:
			patch := fmt.Sprintf(`{"metadata":{"labels":{"round":"%d-%d"}}}`, round, i)
			_, err = client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
		if err != nil {
			t.Fatalf("change %s %s/%s: %v", k.gvr.Resource, ns, name, err)
		}
	}
}
