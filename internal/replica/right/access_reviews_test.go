package right_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/replica/right"
)

// slowReview answers after a second, and counts what it is asked.
type slowReview struct{ asked atomic.Int64 }

func (s *slowReview) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s.asked.Add(1)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return authorizer.DecisionNoOpinion, "", ctx.Err()
	}
	if a.GetUser() == nil || a.GetUser().GetName() == "broken" {
		return authorizer.DecisionNoOpinion, "", errors.New("the upstream does not answer")
	}
	return authorizer.DecisionAllow, "for " + a.GetUser().GetName(), nil
}

func newReviews(t *testing.T, cfg right.ReviewConfig) *right.Reviews {
	t.Helper()
	reviews, err := right.NewReviews(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return reviews
}

// answersHold is for how long answers hold in tests of a fleet.
const answersHold = 10 * time.Second

func newReviewed(t *testing.T, review authorizer.UnconditionalAuthorizer) authorizer.UnconditionalAuthorizer {
	t.Helper()
	return newReviews(t, right.ReviewConfig{}).Rights(review, answersHold, answersHold)
}

func named(name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name, Groups: []string{"agents"}}, Verb: "watch", Resource: "pods", ResourceRequest: true}
}

// TestReviewsAreShared lets a fleet ask at once. The upstream is asked once for each user,
// and again later.
func TestReviewsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		review := &slowReview{}
		rights := newReviewed(t, review)
		ask := func(n int, name string) {
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					decision, reason, err := rights.Authorize(t.Context(), named(name))
					if allowed := name != "broken"; (decision == authorizer.DecisionAllow) != allowed || (err == nil) != allowed || allowed && reason != "for "+name {
						t.Errorf("%s: %v, %q, %v", name, decision, reason, err)
					}
				})
			}
			all.Wait()
		}
		var all sync.WaitGroup
		for _, name := range []string{"a", "b", "broken"} {
			all.Go(func() { ask(100, name) })
		}
		all.Wait()
		if n := review.asked.Load(); n != 3 {
			t.Errorf("the upstream was asked %d times about 3 users", n)
		}
		if ask(1, "a"); review.asked.Load() != 3 {
			t.Error("an answer is not remembered")
		}
		if ask(1, "broken"); review.asked.Load() != 4 {
			t.Error("an error is remembered")
		}
		<-time.After(answersHold + time.Second)
		if ask(1, "a"); review.asked.Load() != 5 {
			t.Error("an answer is remembered for too long")
		}
	})
}

// TestReviewOutlivesItsFirstRequest ends the request that has asked: others get its answer.
func TestReviewOutlivesItsFirstRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rights := newReviewed(t, &slowReview{})
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _, _ = rights.Authorize(first, named("a")) })
		synctest.Wait()
		all.Go(func() {
			if decision, _, err := rights.Authorize(t.Context(), named("a")); decision != authorizer.DecisionAllow || err != nil {
				t.Errorf("%v, %v", decision, err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
	})
}

// TestDifferentReviewsAreNotShared asks at once about requests of which each differs from the
// first in one word.
func TestDifferentReviewsAreNotShared(t *testing.T) {
	t.Parallel()
	requirement, err := labels.NewRequirement("app", selection.Equals, []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	changes := []func(*authorizer.AttributesRecord){
		func(*authorizer.AttributesRecord) {},
		func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "b", Groups: []string{"agents"}}
		},
		func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "a", Groups: []string{"others"}}
		},
		func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "a", UID: "7", Groups: []string{"agents"}}
		},
		func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "a", Groups: []string{"agents"}, Extra: map[string][]string{"scopes": {"x"}}}
		},
		func(a *authorizer.AttributesRecord) { a.Verb = "list" },
		func(a *authorizer.AttributesRecord) { a.Namespace = "x" },
		func(a *authorizer.AttributesRecord) { a.Resource = "nodes" },
		func(a *authorizer.AttributesRecord) { a.Subresource = "log" },
		func(a *authorizer.AttributesRecord) { a.Name = "x" },
		func(a *authorizer.AttributesRecord) { a.APIGroup = "apps" },
		func(a *authorizer.AttributesRecord) { a.APIVersion = "v1" },
		func(a *authorizer.AttributesRecord) { a.ResourceRequest, a.Path = false, "/version" },
		func(a *authorizer.AttributesRecord) {
			a.FieldSelectorRequirements = fields.Requirements{{Operator: selection.Equals, Field: "metadata.name", Value: "x"}}
		},
		func(a *authorizer.AttributesRecord) { a.LabelSelectorRequirements = labels.Requirements{*requirement} },
		// These two are asked about for each request: what could not be parsed is not compared.
		func(a *authorizer.AttributesRecord) { a.FieldSelectorParsingErr = errors.New("x") },
		func(a *authorizer.AttributesRecord) { a.LabelSelectorParsingErr = errors.New("x") },
	}
	synctest.Test(t, func(t *testing.T) {
		review := &slowReview{}
		rights := newReviewed(t, review)
		var all sync.WaitGroup
		for change := range slices.Values(changes) {
			a := named("a")
			change(&a)
			all.Go(func() { _, _, _ = rights.Authorize(t.Context(), a) })
		}
		all.Wait()
		if n := review.asked.Load(); n != int64(len(changes)) {
			t.Errorf("%d questions about %d different requests", n, len(changes))
		}
	})
}

// TestReviewThatPanics: the question is nobody's request, and a panic there ends nothing.
func TestReviewThatPanics(t *testing.T) {
	t.Parallel()
	counter := panics.New(slog.New(slog.DiscardHandler))
	rights := newReviews(t, right.ReviewConfig{Panics: counter}).Rights(authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		panic("a webhook's")
	}), answersHold, answersHold)
	decision, _, err := rights.Authorize(t.Context(), named("a"))
	if counts, _ := counter.Counts(); decision == authorizer.DecisionAllow || err == nil || counts[panics.Request] != 1 {
		t.Errorf("%v, %v, panics %v", decision, err, counts)
	}
}
