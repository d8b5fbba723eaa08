package right

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// givenRights and refusedRights are how many answers are remembered, by hash: 20 MB and 2 MB
// at most. A fleet has one answer for each agent and resource.
const (
	givenRights   = 65536
	refusedRights = 8192
)

// rightTimeout is how long a question about a right keeps its turn, retries included.
const rightTimeout = 10 * time.Second

// rightState is what Reviews know of rights.
type rightState struct {
	// given and refused have a reviewAnswer by answerKey.
	given, refused *cache.LRUExpireCache
	// turns schedules questions, with a flow for each user.
	turns *turns
}

func newRightState(cfg ReviewConfig) rightState {
	return rightState{
		given: cache.NewLRUExpireCache(givenRights), refused: cache.NewLRUExpireCache(refusedRights),
		turns: newTurns(turnsConfig{inFlight: 2 * cfg.InFlight, share: cfg.InFlight, waiting: cfg.Waiting, wait: cfg.Wait}),
	}
}

// reviewAnswer is what an authorizer answers.
type reviewAnswer struct {
	decision authorizer.Decision
	reason   string
}

// accessReviews decides about rights by asking another authorizer.
type accessReviews struct {
	*Reviews
	review authorizer.UnconditionalAuthorizer
	// given and refused are for how long answers hold.
	given, refused time.Duration
}

// Rights returns an authorizer that remembers the answers of review, which asks the
// upstream. An answer that gives a right holds for given, and an answer that refuses it for
// refused.
func (r *Reviews) Rights(review authorizer.UnconditionalAuthorizer, given, refused time.Duration) authorizer.UnconditionalAuthorizer {
	return &accessReviews{r, review, given, refused}
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (r *accessReviews) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	question := reviewQuestion(a)
	if question == "" {
		answer, err := r.ask(ctx, a)
		return answer.decision, answer.reason, err
	}
	key := r.keyOf(kindRight, question)
	if answer, ok := r.remembered(key); ok {
		return answer.decision, answer.reason, nil
	}
	shared, err := r.share(ctx, key, func(ctx context.Context) (any, error) {
		if answer, ok := r.remembered(key); ok {
			return answer, nil // another question has just been answered
		}
		answer, err := r.ask(ctx, a)
		switch {
		case err != nil:
		case answer.decision == authorizer.DecisionAllow:
			r.rights.given.Add(key, answer, r.given)
		default:
			r.rights.refused.Add(key, answer, r.refused)
		}
		return answer, err
	})
	answer, ok := shared.(reviewAnswer)
	if !ok {
		return authorizer.DecisionNoOpinion, "", err
	}
	return answer.decision, answer.reason, err
}

func (r *accessReviews) remembered(key answerKey) (answer reviewAnswer, ok bool) {
	found, ok := r.rights.given.Get(key)
	if !ok {
		found, ok = r.rights.refused.Get(key)
	}
	answer, _ = found.(reviewAnswer)
	return answer, ok
}

// ask asks in the user's turn.
func (r *accessReviews) ask(ctx context.Context, a authorizer.Attributes) (reviewAnswer, error) {
	name := ""
	if u := a.GetUser(); u != nil {
		name = u.GetName()
	}
	end, why := r.rights.turns.begin(name)
	if why != "" {
		return reviewAnswer{decision: authorizer.DecisionNoOpinion}, r.omit(kindRight, why)
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, rightTimeout)
	defer cancel()
	decision, reason, err := r.review.Authorize(ctx, a)
	return reviewAnswer{decision, reason}, err
}

// reviewQuestion returns everything that a decision may depend on. It is empty for what is not
// to be shared or remembered: requests without a user, or with a selector that cannot be parsed.
//
// Upstream: k8s.io/apiserver/pkg/authorization/authorizer.Attributes; compare at each upgrade.
func reviewQuestion(a authorizer.Attributes) string {
	fields, fieldErr := a.GetFieldSelector()
	labels, labelErr := a.GetLabelSelector()
	u := a.GetUser()
	if u == nil || fieldErr != nil || labelErr != nil {
		return ""
	}
	question, err := json.Marshal([]any{
		u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(),
		a.GetVerb(), a.IsReadOnly(), a.GetNamespace(), a.GetResource(), a.GetSubresource(), a.GetName(), a.GetAPIGroup(), a.GetAPIVersion(),
		a.IsResourceRequest(), a.GetPath(), fmt.Sprintf("%+q", fields), fmt.Sprintf("%+q", labels),
	})
	if err != nil {
		return ""
	}
	return string(question)
}
