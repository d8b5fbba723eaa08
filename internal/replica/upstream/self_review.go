package upstream

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// MayFollow reports whether the upstream lets the replica list and watch a resource in all
// namespaces.
func (u *Upstream) MayFollow(ctx context.Context, gr schema.GroupResource) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		if allowed, err := u.may(ctx, verb, gr); err != nil || !allowed {
			return false, err
		}
	}
	return true, nil
}

// may asks the upstream whether the replica may do something with a resource in all
// namespaces.
func (u *Upstream) may(ctx context.Context, verb string, gr schema.GroupResource) (bool, error) {
	review, err := u.rights.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: gr.Group, Resource: gr.Resource},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask the upstream whether this replica may %s %s: %w", verb, gr, err)
	}
	return review.Status.Allowed, nil
}

// userQuestions are the resources by whose creation a replica asks about users and rights.
var userQuestions = []schema.GroupResource{
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// delegatorRole is the cluster role that lets a user ask about users and rights.
const delegatorRole = "system:auth-delegator"

// AdviseDelegation returns the command that lets the replica ask the upstream about users
// and rights. It returns "" if the replica may. Without that right it answers nobody.
func (u *Upstream) AdviseDelegation(ctx context.Context) (command string, err error) {
	for _, gr := range userQuestions {
		allowed, err := u.may(ctx, "create", gr)
		if err != nil {
			return "", err
		}
		if !allowed {
			return "kubectl create clusterrolebinding millrace-replica-delegator --clusterrole=" + delegatorRole + " " + u.subject(ctx), nil
		}
	}
	return "", nil
}

// subject returns the flag by which kubectl names the replica's user. If the upstream does not
// say who that is, the flag has a placeholder.
func (u *Upstream) subject(ctx context.Context) string {
	name := "USER"
	if self, err := u.users.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err == nil {
		name = self.Status.UserInfo.Username
	}
	if namespace, account, err := serviceaccount.SplitUsername(name); err == nil {
		return "--serviceaccount=" + namespace + ":" + account
	}
	return "--user=" + name
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
