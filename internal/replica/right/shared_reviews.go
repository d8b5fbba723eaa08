package right

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/singleflight"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// sharedReviews asks another authorizer, and asks once for all who ask the same at one
// moment. Kubernetes' authorizer remembers an answer only once it has it, so that a fleet
// whose agents begin at once would ask for each of them.
//
// An answer may so be from a question that began before the request, by the time of an
// answer. Answers are remembered for longer.
type sharedReviews struct {
	review authorizer.UnconditionalAuthorizer
	group  singleflight.Group
}

// reviewAnswer is what an authorizer answers.
type reviewAnswer struct {
	decision authorizer.Decision
	reason   string
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (s *sharedReviews) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	key := reviewKey(a)
	if key == "" {
		return s.review.Authorize(ctx, a)
	}
	asked := s.group.DoChan(key, func() (any, error) {
		// The end of one request does not end the question for the others. The authorizer has
		// a timeout of its own.
		decision, reason, err := s.review.Authorize(context.WithoutCancel(ctx), a)
		return reviewAnswer{decision, reason}, err
	})
	select {
	case shared := <-asked:
		answer, _ := shared.Val.(reviewAnswer)
		return answer.decision, answer.reason, shared.Err
	case <-ctx.Done():
		return authorizer.DecisionNoOpinion, "", ctx.Err()
	}
}

// reviewKey has everything that a decision may depend on. It is empty for what is not to be
// shared: requests without a user, or with a selector that cannot be parsed.
//
// Upstream: k8s.io/apiserver/pkg/authorization/authorizer.Attributes; compare at each upgrade.
func reviewKey(a authorizer.Attributes) string {
	fields, fieldErr := a.GetFieldSelector()
	labels, labelErr := a.GetLabelSelector()
	u := a.GetUser()
	if u == nil || fieldErr != nil || labelErr != nil {
		return ""
	}
	key, err := json.Marshal([]any{
		u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(),
		a.GetVerb(), a.IsReadOnly(), a.GetNamespace(), a.GetResource(), a.GetSubresource(), a.GetName(), a.GetAPIGroup(), a.GetAPIVersion(),
		a.IsResourceRequest(), a.GetPath(), fmt.Sprintf("%+q", fields), fmt.Sprintf("%+q", labels),
	})
	if err != nil {
		return ""
	}
	return string(key)
}
