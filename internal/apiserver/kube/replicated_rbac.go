package kube

import (
	"context"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/wire/entry"
)

// RBACResources returns the resources that ReplicatedRBAC reads.
func RBACResources() []schema.GroupResource {
	return []schema.GroupResource{rolesResource, clusterRolesResource, roleBindingsResource, clusterRoleBindingsResource}
}

var (
	rolesResource               = schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	clusterRolesResource        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	roleBindingsResource        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	clusterRoleBindingsResource = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
)

// ReplicatedRBAC is Kubernetes' RBAC authorizer over the RBAC objects that a cache holds.
// It decides by the state of the cache at the time of the call: an event that the cache
// has applied is never missed.
//
// Kubernetes' informers would lag the cache. Here each call compares the cache's trees with
// the trees that were decoded, which are usually the same. Otherwise it decodes the objects
// that differ. Kubernetes' authorizer asks for all bindings of a namespace and compares each
// with the user. An index by subject leaves only the bindings that name the user or a group.
// So a decision takes microseconds however many bindings there are.
//
// The price: the objects are in memory a second time, decoded.
//
// Any goroutine may use it.
type ReplicatedRBAC struct {
	rbac *rbac.RBACAuthorizer

	mu struct {
		sync.RWMutex
		roles, clusterRoles, roleBindings, clusterRoleBindings decodedObjects
	}
}

// NewReplicatedRBAC makes an authorizer. stored returns the store of a resource, or nil.
func NewReplicatedRBAC(stored func(schema.GroupResource) *storage.Store) *ReplicatedRBAC {
	r := &ReplicatedRBAC{}
	of := func(gr schema.GroupResource, empty func() object, subjectsOf func(object) []bindingSubject) decodedObjects {
		return decodedObjects{
			stored:     storedIndexer{source: func() *storage.Store { return stored(gr) }, read: objectReader{empty: empty}},
			subjectsOf: subjectsOf,
		}
	}
	none := func(object) []bindingSubject { return nil }
	r.mu.roles = of(rolesResource, func() object { return &rbacv1.Role{} }, none)
	r.mu.clusterRoles = of(clusterRolesResource, func() object { return &rbacv1.ClusterRole{} }, none)
	r.mu.roleBindings = of(roleBindingsResource, func() object { return &rbacv1.RoleBinding{} }, func(o object) []bindingSubject {
		return bindingSubjects(o.GetNamespace(), o.(*rbacv1.RoleBinding).Subjects)
	})
	r.mu.clusterRoleBindings = of(clusterRoleBindingsResource, func() object { return &rbacv1.ClusterRoleBinding{} }, func(o object) []bindingSubject {
		return bindingSubjects("", o.(*rbacv1.ClusterRoleBinding).Subjects)
	})
	l := rbacLister{r}
	r.rbac = rbac.New(l, l, l, l)
	return r
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (r *ReplicatedRBAC) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !r.upToDate() {
		r.update()
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.rbac.Authorize(context.WithValue(ctx, rbacUserKey{}, a.GetUser()), a)
}

func (r *ReplicatedRBAC) allLocked() [4]*decodedObjects {
	return [4]*decodedObjects{&r.mu.roles, &r.mu.clusterRoles, &r.mu.roleBindings, &r.mu.clusterRoleBindings}
}

func (r *ReplicatedRBAC) upToDate() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, d := range r.allLocked() {
		if d.tree != d.newest() {
			return false
		}
	}
	return true
}

func (r *ReplicatedRBAC) update() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.allLocked() {
		d.update()
	}
}

// decodedObjects are the objects of one resource, decoded, as they are in one tree. The
// lock of the ReplicatedRBAC guards them.
type decodedObjects struct {
	stored storedIndexer
	// subjectsOf returns the subjects under which bySubject lists an object.
	subjectsOf func(object) []bindingSubject
	// tree is the tree whose objects byKey and bySubject have.
	tree  cache.Tree
	byKey map[string]decodedObject
	// bySubject has the bindings that name a subject, by key.
	bySubject map[bindingSubject]map[string]object
}

// decodedObject is an entry and its decoded object. If the entry cannot be decoded, the
// object is nil and gives no right.
type decodedObject struct {
	entry  *entry.Entry
	object object
}

// newest returns the cache's tree. It is empty before the resource is stored.
func (d *decodedObjects) newest() cache.Tree {
	if s := d.stored.source(); s != nil {
		return s.Resource().Snapshot().Tree
	}
	return cache.Tree{}
}

// update brings the objects up to the cache's tree. It decodes the objects that are new in
// it.
func (d *decodedObjects) update() {
	newest := d.newest()
	if newest == d.tree {
		return
	}
	byKey := make(map[string]decodedObject, newest.Len())
	source := d.stored.source()
	for e := range newest.All("", "") {
		known, ok := d.byKey[e.Key]
		if !ok || known.entry != e {
			d.removeFromIndex(known, e.Key)
			known = decodedObject{e, d.stored.decode(source, e)}
			d.addToIndex(known)
		}
		byKey[e.Key] = known
	}
	for key, known := range d.byKey {
		if _, ok := byKey[key]; !ok {
			d.removeFromIndex(known, key)
		}
	}
	d.tree, d.byKey = newest, byKey
}

// addToIndex adds an object to the index by subject.
func (d *decodedObjects) addToIndex(o decodedObject) {
	if o.object == nil {
		return
	}
	if d.bySubject == nil {
		d.bySubject = map[bindingSubject]map[string]object{}
	}
	for _, subject := range d.subjectsOf(o.object) {
		if d.bySubject[subject] == nil {
			d.bySubject[subject] = map[string]object{}
		}
		d.bySubject[subject][o.entry.Key] = o.object
	}
}

// removeFromIndex removes an object from the index by subject.
func (d *decodedObjects) removeFromIndex(o decodedObject, key string) {
	if o.object == nil {
		return
	}
	for _, subject := range d.subjectsOf(o.object) {
		if delete(d.bySubject[subject], key); len(d.bySubject[subject]) == 0 {
			delete(d.bySubject, subject)
		}
	}
}

// bindingSubject is a user or a group that bindings of a namespace name. The namespace is
// "" for bindings of the whole cluster.
type bindingSubject struct {
	namespace, name string
	group           bool
}

// bindingSubjects returns the subjects of a binding to whom it can apply. A service
// account is a user.
//
// Upstream: k8s.io/kubernetes/pkg/registry/rbac/validation.appliesToUser; compare at each upgrade.
func bindingSubjects(namespace string, all []rbacv1.Subject) []bindingSubject {
	named := make([]bindingSubject, 0, len(all))
	for i := range all {
		s := &all[i]
		switch s.Kind {
		case rbacv1.UserKind:
			named = append(named, bindingSubject{namespace, s.Name, false})
		case rbacv1.GroupKind:
			named = append(named, bindingSubject{namespace, s.Name, true})
		case rbacv1.ServiceAccountKind:
			home := s.Namespace
			if home == "" {
				home = namespace
			}
			named = append(named, bindingSubject{namespace, serviceaccount.MakeUsername(home, s.Name), false})
		}
	}
	return named
}

// rbacUserKey is the key of the user for whom rbacLister lists bindings.
type rbacUserKey struct{}

// rbacLister gives Kubernetes' authorizer the objects of a ReplicatedRBAC, whose lock the
// caller holds. It gives only the bindings that name the user, or a group of the user.
type rbacLister struct{ *ReplicatedRBAC }

// GetRole implements validation.RoleGetter.
func (l rbacLister) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	if role, ok := l.mu.roles.byKey[namespace+"/"+name].object.(*rbacv1.Role); ok {
		return role, nil
	}
	return nil, apierrors.NewNotFound(rolesResource, name)
}

// GetClusterRole implements validation.ClusterRoleGetter.
func (l rbacLister) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	if role, ok := l.mu.clusterRoles.byKey[name].object.(*rbacv1.ClusterRole); ok {
		return role, nil
	}
	return nil, apierrors.NewNotFound(clusterRolesResource, name)
}

// ListRoleBindings implements validation.RoleBindingLister.
func (l rbacLister) ListRoleBindings(ctx context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	return bindingsOf[*rbacv1.RoleBinding](ctx, &l.mu.roleBindings, namespace), nil
}

// ListClusterRoleBindings implements validation.ClusterRoleBindingLister.
func (l rbacLister) ListClusterRoleBindings(ctx context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return bindingsOf[*rbacv1.ClusterRoleBinding](ctx, &l.mu.clusterRoleBindings, ""), nil
}

// bindingsOf returns the bindings of a namespace that name the context's user, or a group
// of that user.
func bindingsOf[B any](ctx context.Context, d *decodedObjects, namespace string) (bindings []B) {
	who, ok := ctx.Value(rbacUserKey{}).(user.Info)
	if !ok {
		return nil
	}
	add := func(subject bindingSubject) {
		for _, o := range d.bySubject[subject] {
			if binding, ok := o.(B); ok {
				bindings = append(bindings, binding)
			}
		}
	}
	add(bindingSubject{namespace, who.GetName(), false})
	for _, group := range who.GetGroups() {
		add(bindingSubject{namespace, group, true})
	}
	return bindings
}
