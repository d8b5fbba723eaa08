package read

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/tier/cache"
)

const (
	// explainHeader in a request asks for planHeader in the answer.
	explainHeader = "X-Millrace-Explain"
	planHeader    = "X-Millrace-Plan"
)

// describe says how the objects of a list were found. If the request has no selectors, or the
// client may list without them, it also says how many objects the scope and the path have.
func (q *query) describe(ctx context.Context, page *cache.Page) string {
	plan := &page.Plan
	text := string(plan.Path)
	if plan.Path == cache.PathIndex {
		text += " of " + plan.Term.String()
	}
	if q.selects() && !q.mayListAll(ctx) {
		return fmt.Sprintf("%s; selected=%d", text, page.Count)
	}
	return fmt.Sprintf("%s; candidates=%d; selected=%d; scope=%d", text, plan.Candidates, page.Count, page.Total)
}

// selects reports whether the request has a selector.
func (q *query) selects() bool {
	o := &q.options
	return o.LabelSelector != nil && !o.LabelSelector.Empty() || o.FieldSelector != nil && !o.FieldSelector.Empty() || q.shard != nil
}

// mayListAll reports whether the client may send the same request without its selectors.
// Authorization may depend on them. It returns false before SetAuthorizer.
func (q *query) mayListAll(ctx context.Context) bool {
	decider := q.tier.authorizer.Load()
	info, ok := request.RequestInfoFrom(ctx)
	if decider == nil || !ok {
		return false
	}
	client, _ := request.UserFrom(ctx)
	decision, _, err := (*decider).Authorize(ctx, authorizer.AttributesRecord{
		User: client, Verb: info.Verb, Namespace: info.Namespace, APIGroup: info.APIGroup, APIVersion: info.APIVersion,
		Resource: info.Resource, ResourceRequest: true, Path: info.Path,
	})
	return err == nil && decision == authorizer.DecisionAllow
}
