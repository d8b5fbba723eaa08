package hollow

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const preflightTimeout = 15 * time.Second

// NewClient returns a client of the kubeconfig's user, without rate limits.
func NewClient(cfg *rest.Config) (kubernetes.Interface, error) {
	own := rest.CopyConfig(cfg)
	own.QPS, own.WarningHandler = -1, rest.NoWarnings{}
	own.ContentType = runtime.ContentTypeProtobuf
	own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w: check the kubeconfig", err)
	}
	return client, nil
}

// right is something that the user of the kubeconfig must be allowed to do.
type right struct{ verb, group, resource, subresource, namespace string }

func (r right) String() string {
	resource := r.resource
	if r.subresource != "" {
		resource += "/" + r.subresource
	}
	return r.verb + " " + resource
}

// rights returns the rights that the kubeconfig's user needs for a run. With impersonation the
// programs' own users need the rights to read and write.
func rights(cfg *Config) []right {
	list := []right{{verb: "delete", resource: "nodes"}, {verb: "delete", resource: "pods"}}
	if !cfg.Delete && cfg.Pods > 0 {
		list = append(list, right{verb: "create", resource: "pods", namespace: cfg.Namespace})
	}
	switch {
	case cfg.Delete:
	case cfg.Impersonate:
		list = append(list, right{verb: "impersonate", resource: "users"}, right{verb: "impersonate", resource: "groups"})
	default:
		list = append(list, right{verb: "create", resource: "nodes"}, right{verb: "patch", resource: "nodes", subresource: "status"},
			right{verb: "create", group: "coordination.k8s.io", resource: "leases", namespace: "kube-node-lease"},
			right{verb: "patch", resource: "pods", subresource: "status"}, right{verb: "watch", resource: "secrets"})
	}
	return list
}

// preflight checks that the server answers, and that the user has the rights that a run needs.
func preflight(ctx context.Context, admin kubernetes.Interface, cfg *Config) error {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	for _, r := range rights(cfg) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace,
		}}}
		answer, err := admin.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		switch {
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("the server at %s does not know the user of the kubeconfig: give a kubeconfig of this cluster", cfg.REST.Host)
		case err != nil:
			return fmt.Errorf("reach the server at %s: %w: check that it runs, and that the kubeconfig is for this cluster", cfg.REST.Host, err)
		case !answer.Status.Allowed:
			return fmt.Errorf("the user of the kubeconfig may not %s: give a kubeconfig with an administrator's rights", r)
		}
	}
	if cfg.Impersonate && !cfg.Delete {
		return preflightNode(ctx, admin)
	}
	return nil
}

// preflightNode checks that kubelets have the rights of nodes, by the node authorizer or by a
// binding. The node in the question does not exist.
func preflightNode(ctx context.Context, admin kubernetes.Interface) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:node:millrace-hollow", Groups: []string{"system:nodes", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "nodes"},
	}}
	answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("ask for the rights of nodes: %w", err)
	case !answer.Status.Allowed:
		return errors.New("users of nodes may not create nodes: give the server --authorization-mode=Node,RBAC, or bind the " +
			"group system:nodes to the ClusterRole system:node; or leave out --impersonate")
	}
	return nil
}
