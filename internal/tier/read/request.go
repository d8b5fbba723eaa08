package read

import (
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// query is one request that the tier may answer. The request's goroutine uses it, and for a
// watch also the workers of its connection, one goroutine at a time.
type query struct {
	tier    *Tier
	route   *Route
	metrics *Metrics
	// form answers the request, except for what firstForm answers.
	form *encode.Form
	// routeForm is form with its hotness and its names in accounts.
	routeForm *routeForm
	account   account
	// firstForm is the form of a watch's first frame. It is nil if form is the form of
	// all frames.
	firstForm *encode.Form
	// namespace and name are "" for requests that name none.
	namespace, name string
	// isWatch says that the request is a WATCH. Otherwise it is a GET if it has a name, and
	// else a LIST.
	isWatch bool
	// legacyWatchPath tells a watch by the deprecated path /watch/ from one by the parameter
	// watch.
	legacyWatchPath bool
	// session is a WATCH that Wrap is to serve. It is nil before watch has accepted the
	// request.
	session *watchSession
	// options are set for a LIST or WATCH. Field selectors use the labels of the internal version.
	options internalversion.ListOptions
	// shard is the part of the objects that a LIST or WATCH asks for. It is nil if that
	// is all of them.
	shard *entry.Shard
	// shardSelector is shard as Kubernetes has it.
	shardSelector sharding.Selector
	// bookmarks are the bookmarks that a WATCH asks for by name.
	bookmarks bookmarkRequest
	// resourceVersion is the parameter of a GET.
	resourceVersion string
	// encoding is the content coding that the answer has, if it is long enough.
	encoding encode.Encoding
}

// parse decides whether the tier answers a request. If audit is the only reason against
// it, the query is returned too, so that the caller can account for the request.
func (t *Tier) parse(req *http.Request) (*query, passReason) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest || req.Method != http.MethodGet || !verbs[info.Verb] {
		return nil, passNotRead
	}
	route := t.route(schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource})
	if route == nil || info.Subresource != "" {
		return nil, passedResource
	}
	q := &query{tier: t, route: route, metrics: t.metrics}
	if route.cfg.Namespaced {
		q.namespace = info.Namespace
	}
	if info.Verb == "get" {
		q.name = info.Name
	}
	if reason := q.path(req, info); reason != "" {
		return nil, reason
	}
	if reason := q.parameters(req.URL.RawQuery, info.Name); reason != "" {
		return nil, reason
	}
	if reason := q.negotiate(req); reason != "" {
		return nil, reason
	}
	if q.isWatch {
		return q, ""
	}
	// A request without an audit context is not audited.
	if a := audit.AuditContextFrom(req.Context()); a != nil && a.GetEventLevel().GreaterOrEqual(auditinternal.LevelRequestResponse) {
		return q, passedAudit
	}
	return q, ""
}

var verbs = map[string]bool{"get": true, "list": true, "watch": true}

// path checks that the request has the path under which Kubernetes installs it. It sets isWatch
// and legacyWatchPath.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers; compare at each upgrade.
func (q *query) path(req *http.Request, info *request.RequestInfo) passReason {
	path, name := q.route.path("", q.namespace, q.name), q.name
	if q.isWatch = info.Verb == "watch"; q.isWatch {
		if req.Header.Get("Upgrade") != "" {
			return passedUpgrade
		}
		if req.URL.Path != path {
			name, q.legacyWatchPath = info.Name, true
			path = q.route.path("/watch", q.namespace, name)
		}
	}
	if !q.route.servesVerb(info.Verb) || req.URL.Path != path || !validSegments(q.namespace, q.name, info.Name) {
		return passedPath
	}
	if name != "" && q.route.cfg.Namespaced && q.namespace == "" {
		return passedPath
	}
	return ""
}

// validSegments reports whether words may be segments of a key in etcd.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.NamespaceKeyFunc; compare at each upgrade.
func validSegments(words ...string) bool {
	for _, word := range words {
		if len(path.IsValidPathSegmentName(word)) > 0 {
			return false
		}
	}
	return true
}

// parameters parses the query string raw. infoName is the name in the request's RequestInfo.
func (q *query) parameters(raw, infoName string) passReason {
	values := url.Values{}
	if raw != "" {
		var err error
		if values, err = url.ParseQuery(raw); err != nil {
			return passedParameter
		}
	}
	if reason := q.checkSkew(values); reason != "" {
		return reason
	}
	if q.name != "" {
		return q.getOptions(values)
	}
	if q.isWatch {
		q.bookmarks = parseBookmarkRequest(values)
	}
	return q.listOptions(values, infoName)
}
