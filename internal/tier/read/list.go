package read

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"
	storeerrors "k8s.io/apiserver/pkg/storage/errors"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
)

// list answers a LIST, or returns the reason to pass the request on.
func (q *query) list(w http.ResponseWriter, req *http.Request) passReason {
	key, opts := q.storageOptions()
	if !q.route.cfg.Objects.CoversPredicate(&opts.Predicate) {
		return passedSelector
	}
	ctx := q.account.waits.WithContext(req.Context())
	fresh, stale := q.staleness(ctx, opts.ResourceVersion+opts.Predicate.Continue)
	page, err := q.route.cfg.Objects.Select(fresh, key, opts)
	if reason := q.passReasonOf(err); reason != "" {
		return reason
	}
	markStale(w, stale)
	if err != nil {
		q.answerError(w, req, storeerrors.InterpretListError(err, q.route.cfg.Resource.GroupResource()))
		return ""
	}
	if page.Opaque {
		return passedOpaque
	}
	if reason := q.skewedList(&page, &opts); reason != "" {
		return reason
	}
	if err := q.convert(ctx, page.Runs); err != nil {
		q.answerError(w, req, storeerrors.InterpretListError(err, q.route.cfg.Resource.GroupResource()))
		return ""
	}
	q.account.setPage(&page)
	list := &encode.List{
		Form: q.form, Waited: q.account.waits.Add,
		Meta:  encode.Meta{ResourceVersion: page.Revision, Continue: page.Continue, Remaining: page.Remaining, Shard: q.shard.String()},
		Runs:  page.Runs,
		Empty: page.Count == 0,
		Now:   time.Now(),
	}
	if err := list.Prepare(); err != nil {
		return q.passOnEncoding(err)
	}
	encoding := q.encoding
	if encoding != encode.Identity {
		longer, err := list.LongerThan(compressThreshold)
		if err != nil {
			return q.passOnEncoding(err)
		}
		if !longer {
			encoding = encode.Identity
		}
	}
	if req.Header.Get(explainHeader) != "" {
		w.Header().Set(planHeader, q.describe(req.Context(), &page))
	}
	if reason := q.write(w, req, list, encoding); reason != "" {
		w.Header().Del(planHeader)
		return reason
	}
	q.metrics.countList(q.route.cfg.Resource.GroupResource(), &page)
	if page.Plan.Path == cache.PathRange {
		q.routeForm.hotness.touch(list.Now)
	}
	return ""
}

// storageOptions translates the request for storage, as Kubernetes' registries do. A field
// selector by name becomes the lookup of one key.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.Store.ListPredicate; compare at each upgrade.
func (q *query) storageOptions() (key string, opts storage.ListOptions) {
	o := &q.options
	opts = storage.ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch, Recursive: true,
		Predicate: storage.SelectionPredicate{Label: o.LabelSelector, Field: o.FieldSelector, Limit: o.Limit, Continue: o.Continue, ShardSelector: q.shardSelector},
	}
	p := &opts.Predicate
	if p.Label == nil {
		p.Label = labels.Everything()
	}
	if p.Field == nil {
		p.Field = fields.Everything()
	}
	namespace := q.namespace
	if namespace == "" && q.route.cfg.Namespaced {
		if selected, ok := p.MatchesSingleNamespace(); ok && len(validation.ValidateNamespaceName(selected, false)) == 0 {
			namespace = selected
		}
	}
	name, ok := p.MatchesSingle()
	if !ok || name == "" || !validSegments(name) || q.route.cfg.Namespaced && namespace == "" {
		return q.route.key(namespace, ""), opts
	}
	opts.Recursive = false
	return q.route.key(namespace, name), opts
}

// write sends a list. If an encoder fails before the first byte, the request is passed on.
// After that the answer is cut short.
func (q *query) write(w http.ResponseWriter, req *http.Request, list *encode.List, encoding encode.Encoding) passReason {
	q.account.compressed = encoding
	w, observed := q.observe(w, req, "LIST")
	out := &deadlineWriter{query: q, w: w, req: req, encoding: encoding}
	defer out.end()
	err := list.Write(out, encoding)
	if err != nil && !out.begun {
		return q.passOnEncoding(err)
	}
	defer observed(0)
	if err != nil && !out.broken {
		q.abortEncoding(err)
		// The server cuts the connection or stream, so that the client does not take the
		// answer for whole.
		panic(http.ErrAbortHandler)
	}
	return ""
}
