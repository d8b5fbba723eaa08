package handler

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/replica/document"
	"github.com/millrace/millrace/internal/replica/share"
	"github.com/millrace/millrace/internal/replica/upstream"
)

// Config configures Handler. All fields without a comment on their zero value are needed.
type Config struct {
	// Reads wraps a handler by the read tier, which passes on what it cannot answer.
	Reads func(next http.Handler) http.Handler
	// PassOn lets next answer a request that the read tier does not see, and adds it to
	// the accounts. Nil keeps no accounts.
	PassOn func(w http.ResponseWriter, req *http.Request, next http.Handler, reason string)
	// Accounted reports whether PassOn charges requests of this kind to the budgets of clients. Nil
	// means that it does for none.
	Accounted func(*request.RequestInfo) bool
	// Shared is called with each read that was given the answer to another read, also if its
	// client has left meanwhile. It may be nil.
	Shared func(*http.Request)
	// Ready reports whether a replica that has restarted itself is ready. Before that, users
	// whom it does not know get 429. Nil means that the replica has not restarted itself.
	Ready func() bool
	// Follow starts to follow a resource, or returns why its reads cannot be answered here. protobuf
	// says that the client prefers it. It must not block.
	Follow func(gvr schema.GroupVersionResource, protobuf bool) Reason
	// MayShare reports whether lists of a resource are short enough to be held for several
	// clients that ask at the same time. Nil means that all lists are.
	MayShare func(schema.GroupVersionResource) bool
	// Documents answer requests for discovery and OpenAPI.
	Documents *document.Documents
	// Authorizer decides as the upstream does: Rights, or what asks the upstream.
	Authorizer authorizer.UnconditionalAuthorizer
	// Proxy passes requests on.
	Proxy http.Handler
	// ReadsOnly refuses requests that might change something.
	ReadsOnly bool
	// UpstreamURL is the address of the upstream, for users whose writes are refused.
	UpstreamURL string
	// Budgets bound what clients read. They may be nil.
	Budgets *usage.Budgets
	// Serializer writes errors.
	Serializer runtime.NegotiatedSerializer
	// Metrics count requests.
	Metrics *upstream.Metrics
	// CutOffSince returns since when the replica has had no news of a resource. It returns
	// zero while the replica follows the resource, and before it has followed it.
	CutOffSince func(schema.GroupVersionResource) time.Time
}

// cutOffHeader says that an answer is of a replica that is cut off, and since when.
const cutOffHeader = "X-Millrace-Cut-Off-Since"

// Handler answers requests from the read tier, passes them on or refuses them.
// docs/guides/replica-reference.md has the reasons.
type Handler struct {
	cfg   Config
	reads http.Handler
}

// New makes a handler.
func New(cfg Config) *Handler {
	if cfg.PassOn == nil {
		cfg.PassOn = func(w http.ResponseWriter, req *http.Request, next http.Handler, _ string) { next.ServeHTTP(w, req) }
	}
	if cfg.Accounted == nil {
		cfg.Accounted = func(*request.RequestInfo) bool { return false }
	}
	if cfg.Shared == nil {
		cfg.Shared = func(*http.Request) {}
	}
	shared := share.New(share.Config{Next: cfg.Proxy, Shared: cfg.Shared, MayShare: func(req *http.Request) bool {
		info, _ := request.RequestInfoFrom(req.Context())
		return info.Verb == "get" || cfg.MayShare == nil || cfg.MayShare(resourceOf(info))
	}})
	return &Handler{cfg: cfg, reads: cfg.Reads(shared)}
}

// Reason is why a request is passed on before the read tier sees it. Its values and the values
// of follow.Refusal are labels of a metric. The tier counts its own reasons. "" means that the
// request is answered here, or that the tier sees it. Restarting alone is why a request is
// refused.
type Reason string

const (
	// notRead: the request is no GET, LIST or WATCH of a resource's objects, and no GET of a
	// document.
	notRead Reason = "not-read"
	// uncleanPath: the path has a part that is empty, "." or "..".
	uncleanPath Reason = "path"
	// unusualDocument: the answer to a request for discovery or OpenAPI may depend on more
	// than Documents look at.
	unusualDocument Reason = "document"
	// noDocument: the upstream has sent no document that may be kept.
	noDocument Reason = "document-unavailable"
	// actsForOther: the request asks to be handled as another user's.
	actsForOther Reason = "impersonation"
	// unknownUser: the upstream does not know the user, or nobody is named.
	unknownUser Reason = "user"
	// notAllowed: nothing confirmed the user's right.
	notAllowed Reason = "denied"

	// NotServed: the upstream does not serve the resource, or another server does so for it,
	// or this program does not know the resource.
	NotServed Reason = "resource"
	// Excluded: --exclude names the resource, or it is the secrets of the upstream's API and
	// --follow does not name them.
	Excluded Reason = "excluded"
	// VersionSkew: the upstream is of another minor version than this program, and the replica
	// has no objects as the upstream sends them. This program's types could lose a field of a
	// built-in resource, or add a default.
	VersionSkew Reason = "version-skew"
	// Restarting: the replica has restarted itself and is not ready, or is about to restart for
	// another version of the upstream. The request is refused: a fleet would come to the
	// upstream together, while it is upgraded.
	Restarting Reason = "starts-again"
	// OtherEtcd: the replica follows etcd, which is not known to be where the upstream keeps
	// the resource.
	OtherEtcd Reason = "other-etcd"
	// NotNamed: --follow-only is set, and --follow does not name the resource.
	NotNamed Reason = "not-named"
	// OtherVersion: the resource is followed in another version. Its objects need not have all
	// fields of the requested version, or are not what the upstream would send.
	OtherVersion Reason = "other-version"
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if reason, err := h.refuses(req); err != nil {
		h.cfg.Metrics.Refused.WithLabelValues(reason).Inc()
		if reason == writeRefused {
			w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		}
		upstream.RespondError(h.cfg.Serializer, w, req, err)
		return
	}
	var why Reason
	if document.IsRequest(req) {
		why = h.serveDocument(w, req)
	} else if why = h.passesOn(req); why == "" {
		h.serveRead(w, req)
	}
	if why == unknownUser && h.cfg.Ready != nil && !h.cfg.Ready() {
		why = Restarting // who signs client certificates is not known yet
	}
	if why == Restarting {
		h.cfg.Metrics.Refused.WithLabelValues(string(why)).Inc()
		upstream.RespondError(h.cfg.Serializer, w, req, apierrors.NewTooManyRequests("this replica is starting, or about to restart because its API server has another version: retry", 1))
		return
	}
	if why != "" {
		h.cfg.Metrics.PassedOn.WithLabelValues(string(why)).Inc()
		h.passOn(w, req, why)
	}
}

// passOn lets the upstream answer a request. Bytes that a GET or LIST is sent count
// against its client's budget, as the bytes of the tier do. Watches are not charged: initial events
// cannot be told from others here.
func (h *Handler) passOn(w http.ResponseWriter, req *http.Request, why Reason) {
	client, info, charged := h.charged(req.Context())
	if !charged || info.Verb == "watch" || h.cfg.Accounted(info) {
		h.cfg.PassOn(w, req, h.cfg.Proxy, string(why))
		return
	}
	counted := &countedWriter{ResponseWriter: w}
	defer func() { h.cfg.Budgets.Charge(client.GetName(), req.RemoteAddr, counted.bytes) }()
	h.cfg.PassOn(counted, req, h.cfg.Proxy, string(why))
}

// countedWriter counts the bytes of a body.
type countedWriter struct {
	http.ResponseWriter
	bytes uint64
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *countedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes += uint64(n)
	return n, err
}

// serveRead lets the tier answer a read.
func (h *Handler) serveRead(w http.ResponseWriter, req *http.Request) {
	info, _ := request.RequestInfoFrom(req.Context())
	if since := h.cfg.CutOffSince(resourceOf(info)); !since.IsZero() {
		w.Header().Set(cutOffHeader, since.UTC().Format(time.RFC3339))
	}
	h.reads.ServeHTTP(w, req)
}

// serveDocument answers a request for discovery or OpenAPI, or returns why it is passed on.
func (h *Handler) serveDocument(w http.ResponseWriter, req *http.Request) Reason {
	r, ok := h.cfg.Documents.Parse(req)
	if !ok {
		return unusualDocument
	}
	if why := h.denies(req.Context()); why != "" {
		return why
	}
	if !h.cfg.Documents.Answer(req.Context(), w, r) {
		return noDocument
	}
	return ""
}

func resourceOf(info *request.RequestInfo) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
}

// writeRefused is the reason of a request that --reads-only refuses.
const writeRefused = "write"

// refuses returns the error of a request that neither the tier nor the upstream is to see.
// reason is its label in the metric: writeRefused, or the name of a budget.
func (h *Handler) refuses(req *http.Request) (reason string, err error) {
	ctx := req.Context()
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return "", nil
	}
	client, known := request.UserFrom(ctx)
	if h.cfg.ReadsOnly && mayWrite(req, info) {
		if !known || upstream.IsStranger(client) {
			return writeRefused, refuseWrite(info, "")
		}
		return writeRefused, refuseWrite(info, h.cfg.UpstreamURL)
	}
	if _, _, charged := h.charged(ctx); !charged {
		return "", nil
	}
	over := h.cfg.Budgets.Check(client.GetName(), req.RemoteAddr)
	if over.Budget == "" {
		return "", nil
	}
	return over.Budget, overBudget(over)
}

// charged reports whether a request counts against the budget of its client: reads of
// resources do, except by administrators and unknown users.
func (h *Handler) charged(ctx context.Context) (client user.Info, info *request.RequestInfo, charged bool) {
	client, known := request.UserFrom(ctx)
	info, ok := request.RequestInfoFrom(ctx)
	charged = h.cfg.Budgets != nil && known && ok && info.IsResourceRequest && isRead(info.Verb) &&
		!upstream.IsStranger(client) && !slices.Contains(client.GetGroups(), user.SystemPrivilegedGroup)
	return client, info, charged
}

// overBudget returns the error of a client that has used up a budget.
func overBudget(over usage.Overdraft) error {
	seconds := int(over.RetryAfter / time.Second)
	used := map[string]string{"cpu": "CPU time", "bytes": "bytes"}[over.Budget]
	return apierrors.NewTooManyRequests(fmt.Sprintf(
		"the reads of this client have used up its budget of %s for a minute: retry after %d s, or watch in place of reading again", used, seconds), seconds)
}

// passesOn returns why the request is passed on. It returns "" if the tier may answer the
// request. A resource is followed only for users who may read it.
func (h *Handler) passesOn(req *http.Request) Reason {
	ctx := req.Context()
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || !info.IsResourceRequest || info.Subresource != "" || req.Method != http.MethodGet || !isRead(info.Verb) {
		return notRead
	}
	if upstream.IsUnclean(req.URL.Path) {
		return uncleanPath
	}
	if why := h.denies(ctx); why != "" {
		return why
	}
	return h.cfg.Follow(resourceOf(info), strings.HasPrefix(req.Header.Get("Accept"), runtime.ContentTypeProtobuf))
}

// denies returns why the user of a request gets no answer here. It returns "" if the user has
// the right.
func (h *Handler) denies(ctx context.Context) Reason {
	if upstream.ActsForOther(ctx) {
		return actsForOther
	}
	client, ok := request.UserFrom(ctx)
	if !ok || upstream.IsStranger(client) {
		return unknownUser
	}
	attributes, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return notAllowed
	}
	decision, reason, err := h.cfg.Authorizer.Authorize(ctx, attributes)
	if err != nil || decision != authorizer.DecisionAllow {
		return notAllowed
	}
	audit.AddAuditAnnotations(ctx, "authorization.k8s.io/decision", "allow", "authorization.k8s.io/reason", reason)
	return ""
}

func isRead(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }
