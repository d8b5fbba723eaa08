package storage_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/tier/cache"
)

// registry returns the layer between Kubernetes' handlers and the fixture's store.
func (f *fixture) registry() *genericregistry.Store {
	return &genericregistry.Store{
		NewListFunc:               newPodList,
		DefaultQualifiedResource:  schema.GroupResource{Resource: "pods"},
		SingularQualifiedResource: schema.GroupResource{Resource: "pod"},
		KeyRootFunc:               func(ctx context.Context) string { return genericregistry.NamespaceKeyRootFunc(ctx, "/pods") },
		KeyFunc: func(ctx context.Context, name string) (string, error) {
			return genericregistry.NamespaceKeyFunc(ctx, "/pods", name)
		},
		Storage: genericregistry.DryRunnableStorage{Storage: f.Store, Codec: f.codec},
	}
}

// listPage lists pods as Kubernetes' handler does. The namespace "" means all.
func (f *fixture) listPage(ctx context.Context, namespace, selector string, options internalversion.ListOptions) (*example.PodList, error) {
	ctx = request.WithRequestInfo(request.WithNamespace(ctx, namespace), &request.RequestInfo{
		IsResourceRequest: true, Verb: "list", APIVersion: "v1", Resource: "pods", Namespace: namespace,
	})
	predicate := apistorage.SelectionPredicate{Label: labels.Everything(), Field: fields.ParseSelectorOrDie(selector), GetAttrs: podAttributes}
	list, err := f.registry().ListPredicate(ctx, predicate, &options)
	if err != nil {
		return nil, err
	}
	return list.(*example.PodList), nil
}

// walkPages lists all pages, and returns the names on them and where each token
// continues.
func (f *fixture) walkPages(t *testing.T, namespace, selector string, options internalversion.ListOptions) (names, tokens []string) {
	t.Helper()
	const maxPages = 20
	for range maxPages {
		list, err := f.listPage(t.Context(), namespace, selector, options)
		must(t, err)
		for _, pod := range list.Items {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
		if list.Continue == "" {
			return names, tokens
		}
		tokens = append(tokens, tokenStart(t, list.Continue))
		options = internalversion.ListOptions{Limit: options.Limit, Continue: list.Continue}
	}
	t.Fatalf("%q: more than %d pages", selector, maxPages)
	return nil, nil
}

// tokenStart returns the key that a token continues at.
func tokenStart(t *testing.T, token string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token)
	must(t, err)
	_, key, ok := strings.Cut(string(raw), `"start":"`)
	if !ok {
		t.Fatalf("token %s has no start", raw)
	}
	if !strings.HasPrefix(key, "/") {
		t.Errorf("token %s begins without a slash", raw)
	}
	return strings.TrimPrefix(strings.TrimSuffix(key, `\u0000"}`), "/")
}

// TestPagesOfOneNamespaceAmongAll checks that a field selector narrows every page of a
// list over all namespaces, from the cache and from etcd. Tokens are tokens of the
// whole list.
func TestPagesOfOneNamespaceAmongAll(t *testing.T) {
	t.Parallel()
	before := newFixture(t, setup{})
	ctx := t.Context()
	var want []string
	for _, namespace := range []string{"nsa", "nsb", "nsc"} {
		for _, name := range []string{"a", "m", "nsb", "z"} {
			pod := &example.Pod{}
			must(t, before.Create(ctx, "/pods/"+namespace+"/"+name, &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, pod, 0))
			if namespace == "nsb" {
				want = append(want, namespace+"/"+name)
			}
		}
	}
	exact := internalversion.ListOptions{ResourceVersion: fmt.Sprint(before.increaseRV(ctx, t)), ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	gone := &example.Pod{}
	must(t, before.Delete(ctx, "/pods/nsb/m", gone, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}))
	left := slices.Concat(want[:1], want[2:])
	must(t, before.Create(ctx, "/pods/nsd/a", &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "nsd", Name: "a"}}, &example.Pod{}, 0))
	// The second cache has almost no history, so it answers exact revisions from etcd.
	fixtures := map[string]*fixture{"cache": before, "etcd": newFixtureOver(t, before.client, cache.Config{HistoryBytes: 1})}
	for source, f := range fixtures {
		for limit := range int64(5) {
			newest, old := internalversion.ListOptions{Limit: limit}, exact
			old.Limit = limit
			for _, c := range []struct {
				options internalversion.ListOptions
				want    []string
			}{{newest, left}, {old, want}} {
				names, tokens := f.walkPages(t, "", "metadata.namespace=nsb", c.options)
				if !slices.Equal(names, c.want) {
					t.Errorf("%s, limit %d, at %q: %v, want %v", source, limit, c.options.ResourceVersion, names, c.want)
				}
				if ends := pageEnds(c.want, int(limit)); !slices.Equal(tokens, ends) {
					t.Errorf("%s, limit %d, at %q: tokens continue at %q, want %q", source, limit, c.options.ResourceVersion, tokens, ends)
				}
				if within, _ := f.walkPages(t, "nsb", "metadata.namespace=nsb", c.options); !slices.Equal(within, c.want) {
					t.Errorf("%s, limit %d, in the namespace: %v, want %v", source, limit, within, c.want)
				}
			}
		}
	}
}

// pageEnds returns the last name of each page but the last.
func pageEnds(names []string, limit int) (ends []string) {
	for i := limit; limit > 0 && i < len(names); i += limit {
		ends = append(ends, names[i-1])
	}
	return ends
}

// TestTokenOfCompactedPage checks the token that is offered for a page of one namespace
// whose revision was compacted. It is one of the whole list, which every server
// understands.
func TestTokenOfCompactedPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	for _, key := range []string{"nsa/z", "nsb/a", "nsb/m", "nsb/z", "nsc/a"} {
		namespace, name, _ := strings.Cut(key, "/")
		must(t, f.Create(t.Context(), "/pods/"+key, &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, &example.Pod{}, 0))
	}
	first, err := f.listPage(t.Context(), "", "metadata.namespace=nsb", internalversion.ListOptions{Limit: 1})
	must(t, err)
	f.compact(t.Context(), t, fmt.Sprint(f.increaseRV(t.Context(), t)))
	_, err = f.listPage(t.Context(), "", "metadata.namespace=nsb", internalversion.ListOptions{Limit: 1, Continue: first.Continue})
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsResourceExpired(err) {
		t.Fatalf("a page of a compacted revision: %v, want that it has expired", err)
	}
	from, _, err := apistorage.DecodeContinue(status.ErrStatus.Continue, "")
	if must(t, err); from != "nsb/a\x00" {
		t.Errorf("the error offers to continue at %q, want behind nsb/a", from)
	}
	names, _ := f.walkPages(t, "", "metadata.namespace=nsb", internalversion.ListOptions{Limit: 1, Continue: status.ErrStatus.Continue})
	if want := []string{"nsb/m", "nsb/z"}; !slices.Equal(names, want) {
		t.Errorf("the offered token leads to %v, want %v", names, want)
	}
}

// TestTokensOfOtherNamespaces checks lists of one namespace with tokens of another one,
// before it and after it.
func TestTokensOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	for _, key := range []string{"nsa/m", "nsb/a", "nsb/m", "nsc/m"} {
		namespace, name, _ := strings.Cut(key, "/")
		must(t, f.Create(t.Context(), "/pods/"+key, &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, &example.Pod{}, 0))
	}
	rv := f.increaseRV(t.Context(), t)
	fixtures := map[string]*fixture{"cache": f, "etcd": newFixtureOver(t, f.client, cache.Config{HistoryBytes: 1})}
	for start, want := range map[string][]string{"nsa/m": {"nsb/a", "nsb/m"}, "nsb/": {"nsb/a", "nsb/m"}, "nsc/m": nil} {
		token, err := apistorage.EncodeContinue("/"+start+"\x00", "/", rv)
		must(t, err)
		for source, f := range fixtures {
			names, tokens := f.walkPages(t, "", "metadata.namespace=nsb", internalversion.ListOptions{Limit: 2, Continue: token})
			if !slices.Equal(names, want) || len(tokens) > 0 {
				t.Errorf("%s, behind %s: %v with tokens %v, want %v without", source, start, names, tokens, want)
			}
		}
	}
}

// TestNamespaceTokensOfOthers checks tokens of such lists that lack the namespace, as
// the stock server writes them. They continue in the namespace.
func TestNamespaceTokensOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	for _, key := range []string{"nsa/a", "nsa/m", "nsb/a", "nsb/m", "nsb/z"} {
		namespace, name, _ := strings.Cut(key, "/")
		must(t, f.Create(t.Context(), "/pods/"+key, &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, &example.Pod{}, 0))
	}
	rv := f.increaseRV(t.Context(), t)
	late := newFixtureOver(t, f.client, cache.Config{HistoryBytes: 1})
	for _, revision := range []string{fmt.Sprint(rv), "-1"} {
		for _, first := range []string{"", "/"} {
			token := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":` + revision + `,"start":"` + first + `a\u0000"}`))
			for source, f := range map[string]*fixture{"cache": f, "etcd": late} {
				names, _ := f.walkPages(t, "", "metadata.namespace=nsb", internalversion.ListOptions{Limit: 1, Continue: token})
				if want := []string{"nsb/m", "nsb/z"}; !slices.Equal(names, want) {
					t.Errorf("%s, revision %s, start %sa: %v, want %v", source, revision, first, names, want)
				}
			}
		}
	}
}
