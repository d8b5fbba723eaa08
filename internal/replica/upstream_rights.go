package replica

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// MayFollow reports whether the upstream lets the replica list and watch a resource in all
// namespaces.
func (u *Upstream) MayFollow(ctx context.Context, gr schema.GroupResource) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		review, err := u.rights.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: gr.Group, Resource: gr.Resource},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("ask the upstream whether this replica may %s %s: %w", verb, gr, err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}

// Oracle returns what asks the upstream each time about a user's right.
func (u *Upstream) Oracle() (authorizer.UnconditionalAuthorizer, error) {
	asks := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: u.rights, WebhookRetryBackoff: genericoptions.DefaultAuthWebhookRetryBackoff()}
	oracle, err := asks.New()
	if err != nil {
		return nil, fmt.Errorf("make authorizer of the upstream: %w", err)
	}
	return oracle, nil
}
