package kube

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// maxRightsWait is how long a request waits at most for what its authorization reads.
const maxRightsWait = 10 * time.Second

// loadingAuthorizer delays requests that would be refused only because the server has just
// started. Roles, and the graph of what nodes may read, come from informers that list first.
// Until then kube-apiserver answers 403. Clients' informers list again after a 403, and
// webhooks keep the refusal for a while. A request that is allowed never waits. The limit of
// requests in flight comes before authorization and bounds how many requests wait.
type loadingAuthorizer struct {
	authorizer.Authorizer
	// roles are done when the objects are loaded that the authorization of all users reads.
	// graph is the same for what the authorization of nodes reads as well.
	roles, graph []cache.DoneChecker
	maxWait      time.Duration
	// loaded is set once all of roles and graph are done.
	loaded atomic.Bool
}

// newLoadingAuthorizer wraps an authorizer that reads informers of a factory. rbac says that
// RBAC is a part of it.
func newLoadingAuthorizer(a authorizer.Authorizer, factory informers.SharedInformerFactory, rbac bool) *loadingAuthorizer {
	loading := &loadingAuthorizer{Authorizer: a, maxWait: maxRightsWait}
	if rbac {
		v1 := factory.Rbac().V1()
		for _, informer := range []cache.SharedIndexInformer{
			v1.Roles().Informer(), v1.RoleBindings().Informer(), v1.ClusterRoles().Informer(), v1.ClusterRoleBindings().Informer(),
		} {
			loading.roles = append(loading.roles, informer.HasSyncedChecker())
		}
	}
	pods, stored := factory.Core().V1().Pods().Informer().(*storedInformer)
	if !stored {
		return loading
	}
	// Only the node authorizer handles pods. It handles these kinds too.
	if handlers := pods.handlersSynced(); len(handlers) > 0 {
		loading.graph = append(handlers, factory.Core().V1().PersistentVolumes().Informer().HasSyncedChecker(),
			factory.Storage().V1().VolumeAttachments().Informer().HasSyncedChecker())
	}
	return loading
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (l *loadingAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	missing := l.missing(a)
	decision, reason, err := l.Authorizer.Authorize(ctx, a)
	if decision == authorizer.DecisionNoOpinion && l.await(ctx, missing) {
		return l.Authorizer.Authorize(ctx, a)
	}
	return decision, reason, err
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (l *loadingAuthorizer) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	missing := l.missing(a)
	decision := l.Authorizer.ConditionsAwareAuthorize(ctx, a)
	if decision.IsNoOpinion() && l.await(ctx, missing) {
		return l.Authorizer.ConditionsAwareAuthorize(ctx, a)
	}
	return decision
}

// missing returns the checkers that the authorization of a request needs and that are not done.
func (l *loadingAuthorizer) missing(a authorizer.Attributes) []cache.DoneChecker {
	if l.loaded.Load() {
		return nil
	}
	missing, graph := appendUndone(nil, l.roles), appendUndone(nil, l.graph)
	if len(missing)+len(graph) == 0 {
		l.loaded.Store(true)
	}
	if who := a.GetUser(); len(graph) > 0 && who != nil && slices.Contains(who.GetGroups(), user.NodesGroup) {
		missing = append(missing, graph...)
	}
	return missing
}

func appendUndone(undone, checkers []cache.DoneChecker) []cache.DoneChecker {
	for _, c := range checkers {
		if !cache.IsDone(c) {
			undone = append(undone, c)
		}
	}
	return undone
}

// await waits until all that was missing is loaded. It returns false if nothing was missing,
// and if the wait ended before.
func (l *loadingAuthorizer) await(ctx context.Context, missing []cache.DoneChecker) bool {
	if len(missing) == 0 {
		return false
	}
	timer := time.NewTimer(l.maxWait)
	defer timer.Stop()
	for _, needed := range missing {
		select {
		case <-needed.Done():
		case <-ctx.Done():
			return false
		case <-timer.C:
			return false
		}
	}
	return true
}
