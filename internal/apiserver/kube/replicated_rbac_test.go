package kube

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	rbacapi "k8s.io/kubernetes/pkg/apis/rbac"
	rbacvalidation "k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/wire/entry"
)

// rbacCache is a cache of RBAC objects without etcd, and the same objects as a test has
// them.
type rbacCache struct {
	testing.TB
	*rand.Rand
	cache    *cache.Cache
	stores   map[schema.GroupResource]*storage.Store
	objects  map[schema.GroupResource]map[string]object
	revision int64
}

func newRBACCache(tb testing.TB, seed uint64) *rbacCache {
	c := &rbacCache{
		TB: tb, Rand: rand.New(rand.NewPCG(seed, 1)), cache: cache.New(cache.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}),
		stores: map[schema.GroupResource]*storage.Store{}, objects: map[schema.GroupResource]map[string]object{}, revision: 1,
	}
	internal := map[schema.GroupResource]func() runtime.Object{
		rolesResource:               func() runtime.Object { return &rbacapi.Role{} },
		clusterRolesResource:        func() runtime.Object { return &rbacapi.ClusterRole{} },
		roleBindingsResource:        func() runtime.Object { return &rbacapi.RoleBinding{} },
		clusterRoleBindingsResource: func() runtime.Object { return &rbacapi.ClusterRoleBinding{} },
	}
	for _, gr := range RBACResources() {
		r := c.cache.Register(cache.Spec{Prefix: "/registry/" + gr.Resource + "/", GroupResource: gr, Describe: func(e *entry.Entry) error {
			_, err := c.stores[gr].Decode(e)
			return err
		}})
		c.stores[gr] = storage.New(storage.Config{
			Cache: c.cache, Resource: r, Codec: legacyscheme.Codecs.LegacyCodec(rbacv1.SchemeGroupVersion),
			ResourcePrefix: "/" + gr.Resource, PathPrefix: "/registry", New: internal[gr],
		})
		c.objects[gr] = map[string]object{}
	}
	c.cache.BeginLoad().End(tb.Context(), 1)
	return c
}

func (c *rbacCache) put(gr schema.GroupResource, o object) {
	key := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	c.objects[gr][key] = o
	value, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(rbacv1.SchemeGroupVersion), o)
	if err != nil {
		c.Fatal(err)
	}
	c.apply(feed.Object{Key: []byte("/registry/" + gr.Resource + "/" + key), Value: value})
}

// damage makes an object unreadable.
func (c *rbacCache) damage(gr schema.GroupResource, key string) {
	delete(c.objects[gr], key)
	c.apply(feed.Object{Key: []byte("/registry/" + gr.Resource + "/" + key), Value: []byte("?")})
}

func (c *rbacCache) remove(gr schema.GroupResource, key string) {
	delete(c.objects[gr], key)
	c.apply(feed.Object{Key: []byte("/registry/" + gr.Resource + "/" + key), Deleted: true})
}

func (c *rbacCache) apply(o feed.Object) {
	c.revision++
	o.Revision = c.revision
	c.cache.Apply(c.Context(), []feed.Object{o})
}

// oracle is Kubernetes' authorizer over all objects, without an index.
func (c *rbacCache) oracle() *rbac.RBACAuthorizer {
	var (
		roles               []*rbacv1.Role
		roleBindings        []*rbacv1.RoleBinding
		clusterRoles        []*rbacv1.ClusterRole
		clusterRoleBindings []*rbacv1.ClusterRoleBinding
	)
	for _, byKey := range c.objects {
		for _, o := range byKey {
			switch o := o.(type) {
			case *rbacv1.Role:
				roles = append(roles, o)
			case *rbacv1.RoleBinding:
				roleBindings = append(roleBindings, o)
			case *rbacv1.ClusterRole:
				clusterRoles = append(clusterRoles, o)
			case *rbacv1.ClusterRoleBinding:
				clusterRoleBindings = append(clusterRoleBindings, o)
			}
		}
	}
	_, static := rbacvalidation.NewTestRuleResolver(roles, roleBindings, clusterRoles, clusterRoleBindings)
	return rbac.New(static, static, static, static)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

var (
	rbacNamespaces = []string{"a", "b", "c"}
	rbacUsers      = []string{"alice", "bob", "carol", "system:serviceaccount:a:alice", "system:serviceaccount:b:bob", "system:serviceaccount:a:b:c", "team"}
	rbacGroups     = []string{"team", "staff", "alice", "system:authenticated", "system:serviceaccounts:a"}
	rbacVerbs      = []string{"get", "list", "watch", "create", "*"}
	rbacAPIGroups  = []string{"", "apps", "*"}
	rbacKinds      = []string{"pods", "pods/log", "*/log", "deployments", "*"}
)

func (c *rbacCache) meta(namespaced bool) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: fmt.Sprint("name-", c.IntN(5))}
	if namespaced {
		m.Namespace = pick(c.Rand, rbacNamespaces...)
	}
	return m
}

func (c *rbacCache) rules() (rules []rbacv1.PolicyRule) {
	for range 1 + c.IntN(3) {
		rule := rbacv1.PolicyRule{Verbs: []string{pick(c.Rand, rbacVerbs...), pick(c.Rand, rbacVerbs...)}}
		if c.IntN(4) == 0 {
			rule.NonResourceURLs = []string{pick(c.Rand, "/metrics", "/metrics/*", "*")}
		} else {
			rule.APIGroups, rule.Resources = []string{pick(c.Rand, rbacAPIGroups...)}, []string{pick(c.Rand, rbacKinds...)}
			if c.IntN(3) == 0 {
				rule.ResourceNames = []string{pick(c.Rand, "x", "y")}
			}
		}
		rules = append(rules, rule)
	}
	return rules
}

func (c *rbacCache) subjects() (subjects []rbacv1.Subject) {
	for range c.IntN(4) {
		switch c.IntN(3) {
		case 0:
			subjects = append(subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: pick(c.Rand, rbacUsers...)})
		case 1:
			subjects = append(subjects, rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: pick(c.Rand, rbacGroups...)})
		default:
			subjects = append(subjects, rbacv1.Subject{Kind: "ServiceAccount", Name: pick(c.Rand, "alice", "bob", "b:c"), Namespace: pick(c.Rand, "", "a", "b")})
		}
	}
	return subjects
}

func (c *rbacCache) roleRef(kinds ...string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: pick(c.Rand, kinds...), Name: fmt.Sprint("name-", c.IntN(6))}
}

// change makes a random change.
func (c *rbacCache) change() {
	gr := pick(c.Rand, RBACResources()...)
	if keys := slices.Sorted(maps.Keys(c.objects[gr])); len(keys) > 0 && c.IntN(8) == 0 {
		if key := pick(c.Rand, keys...); c.IntN(5) == 0 {
			c.damage(gr, key)
		} else {
			c.remove(gr, key)
		}
		return
	}
	switch gr {
	case rolesResource:
		c.put(gr, &rbacv1.Role{ObjectMeta: c.meta(true), Rules: c.rules()})
	case clusterRolesResource:
		c.put(gr, &rbacv1.ClusterRole{ObjectMeta: c.meta(false), Rules: c.rules()})
	case roleBindingsResource:
		c.put(gr, &rbacv1.RoleBinding{ObjectMeta: c.meta(true), Subjects: c.subjects(), RoleRef: c.roleRef("Role", "ClusterRole")})
	default:
		c.put(gr, &rbacv1.ClusterRoleBinding{ObjectMeta: c.meta(false), Subjects: c.subjects(), RoleRef: c.roleRef("ClusterRole")})
	}
}

// request is a random request of a random user.
func (c *rbacCache) request() authorizer.AttributesRecord {
	who := &user.DefaultInfo{Name: pick(c.Rand, rbacUsers...)}
	for range c.IntN(3) {
		who.Groups = append(who.Groups, pick(c.Rand, rbacGroups...))
	}
	a := authorizer.AttributesRecord{User: who, Verb: pick(c.Rand, rbacVerbs[:4]...)}
	if c.IntN(5) == 0 {
		a.Path = pick(c.Rand, "/metrics", "/metrics/slis", "/other")
		return a
	}
	a.ResourceRequest, a.APIGroup, a.APIVersion = true, pick(c.Rand, "", "apps", "other"), "v1"
	a.Resource, a.Subresource = pick(c.Rand, "pods", "deployments", "secrets"), pick(c.Rand, "", "", "log", "status")
	a.Namespace, a.Name = pick(c.Rand, "", "a", "b", "c", "d"), pick(c.Rand, "", "x", "y", "z")
	return a
}

// TestReplicatedRBACIsKubernetes compares decisions with those of Kubernetes' authorizer
// over the same objects, while these change.
func TestReplicatedRBACIsKubernetes(t *testing.T) {
	t.Parallel()
	c := newRBACCache(t, 1)
	ours := NewReplicatedRBAC(func(gr schema.GroupResource) *storage.Store { return c.stores[gr] })
	for range 60 {
		c.change()
	}
	allowed := 0
	for range 200 {
		for range 1 + c.IntN(4) {
			c.change()
		}
		oracle := c.oracle()
		for range 50 {
			a := c.request()
			got, _, _ := ours.Authorize(t.Context(), a)
			want, _, _ := oracle.Authorize(t.Context(), a)
			if got != want {
				t.Fatalf("%v for %+v of %+v, want %v; revision %d", got, a, a.User, want, c.revision)
			}
			if want == authorizer.DecisionAllow {
				allowed++
			}
		}
	}
	if allowed < 500 || allowed > 9_500 {
		t.Errorf("%d of 10,000 requests are allowed: the test compares too little", allowed)
	}
}

// BenchmarkReplicatedRBAC decides about users of a cluster with a binding for each of them.
func BenchmarkReplicatedRBAC(b *testing.B) {
	const users = 2_000
	c := newRBACCache(b, 1)
	c.put(clusterRolesResource, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"apps"}, Resources: []string{"deployments", "replicasets"}},
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps", "pods"}},
	}})
	for i := range users {
		c.put(clusterRoleBindingsResource, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("user-", i)}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprint("user-", i)}},
		})
	}
	a := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "user-1000", Groups: []string{"system:authenticated"}},
		Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: "a", Name: "x", ResourceRequest: true,
	}
	for name, authorize := range map[string]authorizer.UnconditionalAuthorizer{
		"replicated": NewReplicatedRBAC(func(gr schema.GroupResource) *storage.Store { return c.stores[gr] }), "unindexed": c.oracle(),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if decision, _, _ := authorize.Authorize(b.Context(), a); decision != authorizer.DecisionAllow {
					b.Fatal(decision)
				}
			}
		})
	}
}
