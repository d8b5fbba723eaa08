package read

import (
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/encode"
)

// passReason is why a request goes to Kubernetes' handlers. The values are labels
// of a metric and are documented in docs/guarantees.md. The empty one means
// that the tier answers.
type passReason string

const (
	// passNotRead is no GET, LIST or WATCH of a resource at all. It is not counted.
	passNotRead passReason = "not-read"

	passedResource  passReason = "resource"   // not a stored resource, or a definition that changes
	passedPath      passReason = "path"       // not the canonical path of one
	passedParameter passReason = "parameter"  // malformed, or of watches and shards
	passedSelector  passReason = "selector"   // by a field of a custom resource
	passedAccept    passReason = "accept"     // YAML, indented tables, not acceptable
	passedAudit     passReason = "audit"      // the audit policy logs response bodies
	passedOpaque    passReason = "odd-object" // unreadable, or altered by the handler on its way out
	passedHistory   passReason = "history"    // a revision that the cache no longer has
	passedEncoding  passReason = "encoding"   // an encoder did something unexpected
	// passedConversion is a watch whose first objects a webhook does not convert.
	passedConversion passReason = "conversion"
	passedUpgrade    passReason = "upgrade" // a watch over a web socket
	// passedConnection is a watch over a connection that this server has not accepted
	// itself.
	passedConnection passReason = "connection"
)

// query is a request that the tier can answer.
type query struct {
	tier    *Tier
	route   *Route
	metrics *Metrics
	form    *encode.Form
	// routeForm is the form with its heat and names.
	routeForm *routeForm
	account   account
	// head is the form of a watch's first frame, where that is another.
	head *encode.Form
	// namespace and name are "" for all.
	namespace, name string
	// isWatch tells a WATCH from a LIST, and forced one by the path of old from
	// one by parameter.
	isWatch, legacyWatchPath bool
	// session is a WATCH that is to be served.
	session *watchSession
	// options are a LIST's or WATCH's, with selectors in the stored version's words.
	options internalversion.ListOptions
	// resourceVersion is a GET's.
	resourceVersion string
	encoding        encode.Encoding
}

// parse decides whether a request is the tier's. It returns a query of one that is
// passed on for nothing but its audit.
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
	// Without a context nothing is audited.
	if a := audit.AuditContextFrom(req.Context()); a != nil && a.GetEventLevel().GreaterOrEqual(auditinternal.LevelRequestResponse) {
		return q, passedAudit
	}
	return q, ""
}

var verbs = map[string]bool{"get": true, "list": true, "watch": true}

// path checks that the request is where Kubernetes would have it.
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
	if !q.route.serves(info.Verb) || req.URL.Path != path || !validSegments(q.namespace, q.name, info.Name) {
		return passedPath
	}
	if name != "" && q.route.cfg.Namespaced && q.namespace == "" {
		return passedPath
	}
	return ""
}

// validSegments reports whether words can be part of a key in etcd.
func validSegments(words ...string) bool {
	for _, word := range words {
		if len(path.IsValidPathSegmentName(word)) > 0 {
			return false
		}
	}
	return true
}

func (q *query) parameters(raw, infoName string) passReason {
	values := url.Values{}
	if raw != "" {
		var err error
		if values, err = url.ParseQuery(raw); err != nil {
			return passedParameter
		}
	}
	if q.name != "" {
		return q.getOptions(values)
	}
	return q.listOptions(values, infoName)
}
