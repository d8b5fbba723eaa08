package differential

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// kind is a resource in one of its versions.
type kind struct {
	gvr        schema.GroupVersionResource
	gvk        schema.GroupVersionKind
	namespaced bool
	gets       bool
	lists      bool
	// subresources are those that can be read.
	subresources []string
	// keys identify the objects: "namespace/name" or "name".
	keys []string
	// labels and fields hold some values of the objects' labels and fields, for
	// selectors.
	labels, fields map[string][]string
}

// virtual are types that are computed for each request and not stored, with the
// reason why they are not compared.
var virtual = map[schema.GroupResource]string{
	{Resource: "componentstatuses"}: "asks other components for their health, and answers in any order",
}

func (k *kind) builtin() bool { return k.gvr.Group != "example.com" }

func (k *kind) stored() bool { return virtual[k.gvr.GroupResource()] == "" }

func (k *kind) root() string {
	if k.gvr.Group == "" {
		return "/api/" + k.gvr.Version
	}
	return "/apis/" + k.gvr.Group + "/" + k.gvr.Version
}

// listPath returns the path that lists all objects, or the objects of a
// namespace.
func (k *kind) listPath(namespace string) string {
	if namespace == "" {
		return k.root() + "/" + k.gvr.Resource
	}
	return k.root() + "/namespaces/" + namespace + "/" + k.gvr.Resource
}

// path returns the path of the object with a key.
func (k *kind) path(key string) string {
	if ns, name, ok := strings.Cut(key, "/"); ok {
		return k.listPath(ns) + "/" + name
	}
	return k.listPath("") + "/" + key
}

// discover returns the kinds that can be read.
func discover(tb testing.TB, p *pair) []*kind {
	tb.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(p.ours.quiet())
	if err != nil {
		tb.Fatalf("make discovery client: %v", err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		tb.Fatalf("discover: %v", err)
	}
	var kinds []*kind
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			tb.Fatalf("discover: %v", err)
		}
		of := map[string]*kind{}
		for _, r := range list.APIResources {
			name, sub, _ := strings.Cut(r.Name, "/")
			switch {
			case sub == "":
				of[name] = &kind{
					gvr: gv.WithResource(name), gvk: gv.WithKind(r.Kind), namespaced: r.Namespaced,
					gets: slices.Contains(r.Verbs, "get"), lists: slices.Contains(r.Verbs, "list"),
				}
				kinds = append(kinds, of[name])
				if r.Namespaced && of[name].lists {
					p.namespaced[of[name].listPath("")] = true
				}
			case slices.Contains(r.Verbs, "get") && (sub == "status" || sub == "scale" || sub == "approval"):
				of[name].subresources = append(of[name].subresources, sub)
			}
		}
	}
	// Discovery reads groups in parallel; a seed needs a fixed order.
	slices.SortFunc(kinds, func(a, b *kind) int { return strings.Compare(a.listPath(""), b.listPath("")) })
	return kinds
}

// survey fills in the keys, labels and fields of all objects.
func survey(tb testing.TB, p *pair, kinds []*kind) {
	tb.Helper()
	client, err := dynamic.NewForConfig(p.theirs.quiet())
	if err != nil {
		tb.Fatalf("make dynamic client: %v", err)
	}
	for _, k := range kinds {
		if !k.lists {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		list, err := client.Resource(k.gvr).List(ctx, metav1.ListOptions{})
		cancel()
		if err != nil {
			tb.Fatalf("list %s: %v", k.gvr, err)
		}
		for _, item := range list.Items {
			key := item.GetName()
			if k.namespaced {
				key = item.GetNamespace() + "/" + key
			}
			k.keys = append(k.keys, key)
			k.learn(&item)
		}
	}
}
