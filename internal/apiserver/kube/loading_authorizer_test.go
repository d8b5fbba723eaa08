package kube

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"
)

// TestAuthorizationWaitsForRights asks while roles and the graph of nodes are loaded, after
// one second and after three. The authorizer within allows what it knows of.
func TestAuthorizationWaitsForRights(t *testing.T) {
	const rolesLoaded, graphLoaded = time.Second, 3 * time.Second
	anybody := &user.DefaultInfo{Name: "anybody"}
	node := &user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}}
	for name, c := range map[string]struct {
		who user.Info
		// grantedAfter is when the authorizer within begins to allow; 0 is never.
		grantedAfter time.Duration
		refused      authorizer.Decision
		cancelAfter  time.Duration
		allowed      bool
		takes        time.Duration
	}{
		"a user's role":                {who: anybody, grantedAfter: rolesLoaded, refused: authorizer.DecisionNoOpinion, allowed: true, takes: rolesLoaded},
		"a node's secret":              {who: node, grantedAfter: graphLoaded, refused: authorizer.DecisionNoOpinion, allowed: true, takes: graphLoaded},
		"a user without a role":        {who: anybody, refused: authorizer.DecisionNoOpinion, takes: rolesLoaded},
		"allowed at once":              {who: node, grantedAfter: -1, refused: authorizer.DecisionNoOpinion, allowed: true},
		"denied by another authorizer": {who: node, refused: authorizer.DecisionDeny},
		"given up":                     {who: node, refused: authorizer.DecisionNoOpinion, cancelAfter: 2 * time.Second, takes: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ask := range asks {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					within := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
						if c.grantedAfter != 0 && time.Since(began) >= c.grantedAfter {
							return authorizer.DecisionAllow, "", nil
						}
						return c.refused, "", nil
					})
					l := &loadingAuthorizer{
						Authorizer: within, maxWait: maxRightsWait, roles: []cache.DoneChecker{doneAfter(rolesLoaded)}, graph: []cache.DoneChecker{doneAfter(graphLoaded)},
					}
					ctx := t.Context()
					if c.cancelAfter > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.cancelAfter)
						defer cancel()
					}
					allowed := ask(ctx, l, authorizer.AttributesRecord{User: c.who})
					if took := time.Since(began); allowed != c.allowed || took != c.takes {
						t.Errorf("allowed %v after %v, want %v after %v", allowed, took, c.allowed, c.takes)
					}
				})
			}
		})
	}
}

// TestAuthorizationWaitsNoLonger asks a server whose informers load nothing.
func TestAuthorizationWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		within := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionNoOpinion, "no role", nil
		})
		l := &loadingAuthorizer{Authorizer: within, maxWait: maxRightsWait, roles: []cache.DoneChecker{checker{done: make(chan struct{})}}}
		decision, reason, err := l.Authorize(t.Context(), authorizer.AttributesRecord{})
		if took := time.Since(began); decision != authorizer.DecisionNoOpinion || reason != "no role" || err != nil || took != maxRightsWait {
			t.Errorf("decision %v, %q, %v after %v, want the authorizer's own after %v", decision, reason, err, took, maxRightsWait)
		}
	})
}

// asks are the two ways in which an authorizer is asked.
var asks = []func(context.Context, authorizer.Authorizer, authorizer.Attributes) (allowed bool){
	func(ctx context.Context, a authorizer.Authorizer, of authorizer.Attributes) bool {
		decision, _, _ := a.Authorize(ctx, of)
		return decision == authorizer.DecisionAllow
	},
	func(ctx context.Context, a authorizer.Authorizer, of authorizer.Attributes) bool {
		return a.ConditionsAwareAuthorize(ctx, of).IsAllow()
	},
}

func doneAfter(d time.Duration) cache.DoneChecker {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return checker{name: "informer", done: done}
}
