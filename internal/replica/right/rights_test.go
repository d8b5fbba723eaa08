package right_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/replica/right"
	"github.com/millrace/millrace/internal/replica/upstream"
)

// fakeAuthorizer allows what its set has: the names of users.
type fakeAuthorizer struct{ names sync.Map }

func newFakeAuthorizer(names ...string) *fakeAuthorizer {
	f := &fakeAuthorizer{}
	for _, name := range names {
		f.names.Store(name, true)
	}
	return f
}

func (f *fakeAuthorizer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if _, ok := f.names.Load(a.GetUser().GetName()); ok {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// rightsSetup is what a test of Rights changes.
type rightsSetup struct {
	rbac, review, oracle *fakeAuthorizer
	stale                bool
}

func (s *rightsSetup) rights(t *testing.T) *right.Rights {
	t.Helper()
	counters, err := upstream.NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return right.New(right.Config{
		RBAC: s.rbac, Review: s.review, Oracle: s.oracle, Current: func() bool { return !s.stale },
		Metrics: counters, Logger: slog.New(slog.DiscardHandler),
	})
}

func may(t *testing.T, r *right.Rights, name string, groups ...string) bool {
	t.Helper()
	a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name, Groups: groups}, Verb: "get", Resource: "pods", ResourceRequest: true}
	decision, _, err := r.Authorize(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return decision == authorizer.DecisionAllow
}

// TestRights asks for users whom RBAC, the upstream or neither allows, with RBAC objects
// that are current and that are not.
func TestRights(t *testing.T) {
	t.Parallel()
	s := &rightsSetup{rbac: newFakeAuthorizer("rbac"), review: newFakeAuthorizer("node")}
	r := s.rights(t)
	for _, c := range []struct {
		name, group string
		stale, want bool
	}{
		{name: "rbac", want: true}, {name: "rbac", stale: true},
		{name: "node", want: true}, {name: "node", stale: true, want: true},
		{name: "nobody"}, {name: "admin", group: "system:masters", want: true}, {name: "admin", group: "system:masters", stale: true},
	} {
		if s.stale = c.stale; may(t, r, c.name, c.group) != c.want {
			t.Errorf("%+v: not so", c)
		}
	}
}

// TestRightsAreRefuted makes the upstream refuse what RBAC allows: for ever, or until RBAC
// has followed.
func TestRightsAreRefuted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// revoked removes the right from RBAC after a while, and allowed gives the right.
		revoked, allowed bool
		want             bool
	}{
		"refused": {}, "revoked, and another user": {revoked: true, want: true}, "allowed after a while": {allowed: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &rightsSetup{rbac: newFakeAuthorizer("rbac", "other"), review: newFakeAuthorizer(), oracle: newFakeAuthorizer()}
				r := s.rights(t)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); r.Run(ctx) }()
				if !may(t, r, "rbac") {
					t.Error("RBAC does not count")
				}
				<-time.After(5 * time.Second)
				synctest.Wait()
				switch {
				case c.revoked:
					s.rbac.names.Delete("rbac")
				case c.allowed:
					s.oracle.names.Store("rbac", true)
				}
				<-time.After(time.Minute)
				synctest.Wait()
				if may(t, r, "other") != c.want {
					t.Errorf("RBAC counts: %v", !c.want)
				}
				cancel()
				<-ended
			})
		})
	}
}
