package kube

import (
	"context"
	"fmt"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	requestunion "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Reviews decides when the upstream is asked about users and rights, and remembers its
// answers.
type Reviews interface {
	// Tokens returns an authenticator by bearer tokens. review asks the upstream. An error of
	// review means that there was no answer. Answers are remembered for ttl.
	Tokens(review authenticator.Token, ttl time.Duration) authenticator.Request
	// Rights returns an authorizer. review asks the upstream. Its grants are remembered for
	// given, and its refusals for refused.
	Rights(review authorizer.UnconditionalAuthorizer, given, refused time.Duration) authorizer.UnconditionalAuthorizer
}

// useReviews puts reviews in the place of Kubernetes' own caches of such reviews. The clients of
// these caches share 200 requests a second among all users.
func (o *ReplicaOptions) useReviews(config *genericapiserver.Config, reviews Reviews) error {
	upstream := rest.CopyConfig(o.upstream)
	upstream.QPS = -1
	users, err := authenticationclient.NewForConfig(upstream)
	if err != nil {
		return fmt.Errorf("make client of the upstream: %w", err)
	}
	if config.Authentication.Authenticator, err = o.authenticator(users, config.Authentication.RequestHeaderConfig, reviews); err != nil {
		return fmt.Errorf("set up authentication by the upstream: %w", err)
	}
	upstream.Timeout = o.authorization.ClientTimeout
	rights, err := authorizationclient.NewForConfig(upstream)
	if err != nil {
		return fmt.Errorf("make client of the upstream: %w", err)
	}
	if config.Authorization.Authorizer, err = o.authorizer(rights, reviews); err != nil {
		return fmt.Errorf("set up authorization by the upstream: %w", err)
	}
	return nil
}

// authenticator makes the authenticator of front proxies, certificates and tokens that
// Kubernetes' options would make. Only the part that asks about tokens differs.
//
// Upstream: k8s.io/apiserver/pkg/authentication/authenticatorfactory.DelegatingAuthenticatorConfig.New; compare at each upgrade.
func (o *ReplicaOptions) authenticator(client authenticationclient.AuthenticationV1Interface, proxies *authenticatorfactory.RequestHeaderConfig, reviews Reviews) (authenticator.Request, error) {
	certificates, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		ClientCertificateCAContentProvider: o.authentication.ClientCert.CAContentProvider, RequestHeaderConfig: proxies,
	}.New()
	if err != nil {
		return nil, err
	}
	reviewer := &tokenReviewer{client.RESTClient(), *o.authentication.WebhookRetryBackoff, o.authentication.TokenRequestTimeout}
	known := requestunion.New(certificates, group.NewAuthenticatedGroupAdder(reviews.Tokens(reviewer, o.authentication.CacheTTL)))
	return requestunion.NewFailOnError(known, anonymous.NewAuthenticator((&apiserver.AnonymousAuthConfig{Enabled: true}).Conditions)), nil
}

// authorizer makes the authorizer that Kubernetes' options would make. Only the part that
// asks about rights differs.
//
// Upstream: k8s.io/apiserver/pkg/server/options.DelegatingAuthorizationOptions.toAuthorizer; compare at each upgrade.
func (o *ReplicaOptions) authorizer(client authorizationclient.AuthorizationV1Interface, reviews Reviews) (authorizer.Authorizer, error) {
	reviewer, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client, WebhookRetryBackoff: o.authorization.WebhookRetryBackoff,
	}.New()
	if err != nil {
		return nil, err
	}
	openPaths, err := path.NewAuthorizer(o.authorization.AlwaysAllowPaths)
	if err != nil {
		return nil, err
	}
	byReview := reviews.Rights(reviewer, o.authorization.AllowCacheTTL, o.authorization.DenyCacheTTL)
	return union.New(
		union.NamedAuthorizer{AuthorizerName: "kubernetes.io/always-allow-paths", Authorizer: openPaths},
		union.NamedAuthorizer{AuthorizerName: "kubernetes.io/webhook", Authorizer: authorizer.AuthorizerFunc(byReview.Authorize)},
	)
}

// tokenReviewer asks the upstream about tokens. Its error always means that there was no answer,
// unlike the error of Kubernetes' own reviewer. So all answers can be remembered.
type tokenReviewer struct {
	client  rest.Interface
	backoff wait.Backoff
	timeout time.Duration
}

// AuthenticateToken implements authenticator.Token.
//
// Upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/webhook.WebhookTokenAuthenticator.AuthenticateToken; compare at each upgrade.
func (r *tokenReviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var answer authenticationv1.TokenReview
	err := webhook.WithExponentialBackoff(ctx, r.backoff, func() error {
		began, status, code := time.Now(), 0, "<error>"
		result := r.client.Post().Resource("tokenreviews").Body(&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}).Do(ctx)
		if result.StatusCode(&status); status != 0 {
			code = strconv.Itoa(status)
		}
		authenticatorfactory.RecordRequestTotal(ctx, code)
		authenticatorfactory.RecordRequestLatency(ctx, code, time.Since(began).Seconds())
		return result.Into(&answer)
	}, webhook.DefaultShouldRetry)
	if err != nil {
		return nil, false, fmt.Errorf("ask the upstream about a token: %w", err)
	}
	if !answer.Status.Authenticated {
		return nil, false, nil
	}
	found := &user.DefaultInfo{Name: answer.Status.User.Username, UID: answer.Status.User.UID, Groups: answer.Status.User.Groups}
	for key, values := range answer.Status.User.Extra {
		if found.Extra == nil {
			found.Extra = map[string][]string{}
		}
		found.Extra[key] = values
	}
	return &authenticator.Response{User: found}, true, nil
}
