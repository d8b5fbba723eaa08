package read

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/encode"
)

// passed is why a request goes to Kubernetes' handlers. The values are labels
// of a metric and are documented in docs/guarantees.md. The empty one means
// that the tier answers.
type passed string

const (
	// notRead is no GET or LIST of a resource at all. It is not counted.
	notRead passed = "not-read"

	passedResource  passed = "resource"   // not a built-in stored resource
	passedPath      passed = "path"       // not the canonical path of one
	passedParameter passed = "parameter"  // selectors, pages, watches, …
	passedVersion   passed = "version"    // a resourceVersion that is malformed or not reached yet
	passedAccept    passed = "accept"     // tables, metadata only, YAML, not acceptable
	passedAudit     passed = "audit"      // the audit policy logs response bodies
	passedNotFound  passed = "not-found"  // the error is Kubernetes'
	passedOdd       passed = "odd-object" // unreadable, or altered by the handler on its way out
	passedLoading   passed = "loading"    // the cache is not loaded yet
	passedEncoding  passed = "encoding"   // an encoder did something unexpected
)

// query is a request that the tier can answer.
type query struct {
	route   *Route
	metrics *Metrics
	form    *encode.Form
	// namespace and name are "" for all.
	namespace, name string
	// minRevision is what resourceVersion asks for. consistent is its absence.
	minRevision int64
	consistent  bool
	gzip        bool
}

// parse decides whether a request is the tier's.
func (t *Tier) parse(req *http.Request) (*query, passed) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest || req.Method != http.MethodGet || (info.Verb != "get" && info.Verb != "list") {
		return nil, notRead
	}
	route := (*t.routes.Load())[schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}]
	if route == nil || info.Subresource != "" {
		return nil, passedResource
	}
	q := &query{route: route, metrics: t.metrics, name: info.Name}
	if route.cfg.Namespaced {
		q.namespace = info.Namespace
	}
	if info.Verb == "list" {
		// A field selector by name shows up as the name of a list.
		q.name = ""
	}
	if !route.serves(info.Verb) || req.URL.Path != route.path(q.namespace, q.name) {
		return nil, passedPath
	}
	if reason := q.parseParameters(req.URL.RawQuery); reason != "" {
		return nil, reason
	}
	if reason := q.negotiate(req); reason != "" {
		return nil, reason
	}
	// Without a context nothing is audited.
	if a := audit.AuditContextFrom(req.Context()); a != nil && a.GetEventLevel().GreaterOrEqual(auditinternal.LevelRequestResponse) {
		return nil, passedAudit
	}
	return q, ""
}

func (q *query) parseParameters(raw string) passed {
	q.consistent = true
	if raw == "" {
		return ""
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return passedParameter
	}
	for name := range values {
		if listParameters[name] {
			return passedParameter
		}
	}
	versions := values["resourceVersion"]
	switch {
	case len(versions) == 0 || len(versions) == 1 && versions[0] == "":
		return ""
	case len(versions) > 1:
		return passedVersion
	}
	rv, err := strconv.ParseInt(versions[0], 10, 64)
	if err != nil || rv < 0 {
		return passedVersion
	}
	q.consistent, q.minRevision = false, rv
	return ""
}

// negotiate chooses the form. Media types with parameters ask for
// transformations, which are Kubernetes'.
func (q *query) negotiate(req *http.Request) passed {
	accept := req.Header.Get("Accept")
	if strings.Contains(accept, ";") || !q.routable(accept) {
		return passedAccept
	}
	_, info, err := negotiation.NegotiateOutputMediaType(req, q.route.cfg.Serializer, negotiation.DefaultEndpointRestrictions)
	if err != nil {
		return passedAccept
	}
	q.form = q.route.form(info)
	if q.form == nil {
		return passedAccept
	}
	q.gzip = q.route.cfg.Compress && acceptsGzip(req.Header.Get("Accept-Encoding"))
	return ""
}

// routable reports whether Kubernetes' router, which knows no ranges but */*,
// would hand the request to a handler: one of the words must be a media type
// that the version serves.
func (q *query) routable(accept string) bool {
	if accept == "" {
		return true
	}
	for word := range strings.SplitSeq(accept, ",") {
		word = strings.Trim(word, " ")
		if word == "*/*" {
			return true
		}
		for _, info := range q.route.cfg.Serializer.SupportedMediaTypes() {
			if word == info.MediaType {
				return true
			}
		}
	}
	return false
}

// acceptsGzip looks for the word alone, as Kubernetes does: weights are not read.
func acceptsGzip(header string) bool {
	for token := range strings.SplitSeq(header, ",") {
		if strings.TrimSpace(token) == "gzip" {
			return true
		}
	}
	return false
}
