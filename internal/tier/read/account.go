package read

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// SetAccounts makes the tier keep accounts of GETs and LISTs in lists, and of watches that it
// passes on in watches. It must be called before the first request.
func (t *Tier) SetAccounts(lists *usage.Accounts, watches *slo.Watches) {
	t.lists, t.passedOnWatches = lists, watches
}

// account is what a GET or LIST has cost so far. CPU is estimated: it is the time of the
// request, without the time that it waited.
type account struct {
	startedAt time.Time
	// waits are for etcd, for a webhook, for memory, and for the client to take bytes.
	waits usage.WaitClock
	// path is how objects were found. It is "" before objects were found.
	path cache.Path
	// objects is the number of objects in the answer, and scanned how many were examined.
	objects, scanned int
	// compressed is the coding of the answer.
	compressed encode.Encoding
}

// begin returns the time at which a request begins, and reports it to the accounts.
func (t *Tier) begin() time.Time {
	now := time.Now()
	if t.lists != nil {
		t.lists.Begin(now)
	}
	return now
}

// setPage records how the objects of a list were found.
func (a *account) setPage(page *cache.Page) {
	a.path, a.objects, a.scanned = page.Plan.Path, page.Count, page.Examined
}

// cost returns the cost of a request that ends now. bytes is the size of its answer.
func (a *account) cost(bytes int) serverreport.ListCost {
	c := costOf(time.Since(a.startedAt), a.waits.TotalWait(), bytes)
	c.Objects, c.Scanned = uint64(a.objects), uint64(a.scanned)
	return c
}

// failed returns 1 for 403 and the statuses from 500 on, and 0 for others.
func failed(status int) uint64 {
	if status == http.StatusForbidden || status >= http.StatusInternalServerError {
		return 1
	}
	return 0
}

// costOf returns the cost of a request, given how long it took and how much of that it waited.
func costOf(took, waited time.Duration, bytes int) serverreport.ListCost {
	return serverreport.ListCost{Bytes: uint64(bytes), CPU: max(0, took-waited).Seconds(), Seconds: took.Seconds()}
}

// charge adds a request that the tier has answered to the accounts. bytes is the size of
// the answer. Watches have accounts of their own.
func (q *query) charge(req *http.Request, bytes, status int) {
	lists := q.tier.lists
	if lists == nil || q.isWatch {
		return
	}
	r := usage.Request{
		Client: clientOf(req), Address: req.RemoteAddr, Known: true, Relist: q.isFullRelist(),
		Cost: q.account.cost(bytes),
		Shape: serverreport.Shape{
			Verb: "get", Resource: q.route.name, Version: q.route.cfg.Resource.Version, Scope: q.scope(),
			Revision: serverreport.RevisionMode(q.resourceVersion, "", ""), Path: string(q.account.path),
		},
	}
	if q.name == "" {
		o := &q.options
		r.Shape.Verb, r.Shape.Limit = "list", max(0, o.Limit)
		r.Shape.Revision = serverreport.RevisionMode(o.ResourceVersion, string(o.ResourceVersionMatch), o.Continue)
		r.Shape.Selectors = selectorKeys(o.LabelSelector, o.FieldSelector, q.shard)
	}
	if r.Shape.Path == "" {
		r.Shape.Path = serverreport.PathFailed
	}
	r.Cost.Failed = failed(status)
	r.Shape.Encoding = q.routeForm.names[encodingIndex(q.account.compressed)]
	if n := q.account.scanned; n > 0 {
		if s := q.route.cfg.Objects.Resource().Snapshot(); s.Len() > 0 {
			r.Cost.ScannedBytes = uint64(s.Bytes / int64(s.Len()) * int64(n))
		}
	}
	lists.Observe(&r)
}

// clientOf returns the client of a request, as accounts know it.
func clientOf(req *http.Request) serverreport.Client {
	name := ""
	if user, ok := request.UserFrom(req.Context()); ok {
		name = user.GetName()
	}
	return serverreport.NewClient(name, req.Header.Get("User-Agent"))
}

func (q *query) scope() string { return scope(q.namespace, q.name) }

// scope returns the scope of a request in accounts. namespace and name are "" for none.
func scope(namespace, name string) string {
	switch {
	case name != "":
		return serverreport.ScopeName
	case namespace != "":
		return serverreport.ScopeNamespace
	}
	return serverreport.ScopeCluster
}

// selectorKeys names the keys that selectors ask for. Each selector may be nil.
func selectorKeys(l labels.Selector, f fields.Selector, shard *entry.Shard) string {
	var byLabel, byField, byShard []string
	if l != nil {
		requirements, _ := l.Requirements()
		for i := range requirements {
			byLabel = append(byLabel, requirements[i].Key())
		}
	}
	if f != nil {
		for _, r := range f.Requirements() {
			byField = append(byField, r.Field)
		}
	}
	if shard != nil {
		byShard = []string{shard.Key.String()}
	}
	return serverreport.FormatSelectors(byLabel, byField, byShard...)
}

// encodingNames are the names of a form in accounts: plain, with gzip and with zstd.
type encodingNames [3]string

// encodingIndex returns the index of a coding in encodingNames.
func encodingIndex(e encode.Encoding) int {
	switch e {
	case encode.Gzip:
		return 1
	case encode.Zstd:
		return 2
	}
	return 0
}

// encodingNames returns the form's names in accounts.
func (key formKey) encodingNames() encodingNames {
	name := mediaName(key.mediaType)
	switch {
	case key.as == kindTable:
		name = "table"
	case key.as != "" && name == "json":
		name = "metadata"
	case key.as != "":
		name = "metadata " + name
	}
	if key.pretty {
		name += " indented"
	}
	return encodingNames{name, name + " gzip", name + " zstd"}
}

func mediaName(mediaType string) string {
	switch mediaType {
	case runtime.ContentTypeJSON:
		return "json"
	case runtime.ContentTypeProtobuf:
		return "protobuf"
	case runtime.ContentTypeYAML:
		return "yaml"
	case runtime.ContentTypeCBOR:
		return "cbor"
	}
	return "other"
}

// PassOn lets next answer a request for a reason other than the tier's. It adds a GET or LIST
// to the accounts, and counts no request in Metrics.
func (t *Tier) PassOn(w http.ResponseWriter, req *http.Request, next http.Handler, reason string) {
	if info, ok := request.RequestInfoFrom(req.Context()); !ok || !info.IsResourceRequest || !verbs[info.Verb] {
		next.ServeHTTP(w, req)
		return
	}
	t.countAndPassOn(w, req, next, passOnCause{reason: passReason(reason), startedAt: t.begin(), waits: new(usage.WaitClock)})
}

// sharedKey is the key of a context's *atomic.Bool, which says that the request was given the
// answer to another request.
type sharedKey struct{}

// NoteShared records that a request that was passed on got the answer to another request.
func NoteShared(req *http.Request) {
	if shared, ok := req.Context().Value(sharedKey{}).(*atomic.Bool); ok {
		shared.Store(true)
	}
}

// countAndPassOn lets next answer, and adds a GET or LIST to the accounts.
func (t *Tier) countAndPassOn(w http.ResponseWriter, req *http.Request, next http.Handler, p passOnCause) {
	info, ok := request.RequestInfoFrom(req.Context())
	if ok && info.Verb == "watch" {
		resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		defer t.passedOnWatches.PassOn(clientOf(req), resource.String(), string(p.reason))()
	}
	if t.lists == nil || !ok || !Accounted(info) {
		next.ServeHTTP(w, req)
		return
	}
	shared := new(atomic.Bool)
	req = req.WithContext(p.waits.WithContext(context.WithValue(req.Context(), sharedKey{}, shared)))
	m := &writeMeter{ResponseWriter: w, waits: p.waits}
	inEtcd := etcdLatency(req)
	defer func() {
		r := usage.Request{
			Client: clientOf(req), Address: req.RemoteAddr, Relist: p.relist,
			Known: t.route(schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}) != nil,
			Shape: passedOnShape(req, info, w.Header()),
		}
		r.Shape.Reason = string(p.reason)
		if shared.Load() {
			r.Shape.Path = serverreport.PathShared
		}
		took := time.Since(p.startedAt)
		waited := p.waits.TotalWait() + etcdLatency(req) - inEtcd
		if t.passedOnElsewhere || !r.Known {
			waited = took // another server answers
		}
		r.Cost = costOf(took, waited, int(m.bytes))
		r.Cost.Failed = failed(m.status)
		t.lists.Observe(&r)
	}()
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(m), req)
}

// etcdLatency returns how long a request has waited for etcd's client so far.
func etcdLatency(req *http.Request) time.Duration {
	if trackers, ok := request.LatencyTrackersFrom(req.Context()); ok {
		return trackers.StorageTracker.GetLatency()
	}
	return 0
}

// passOnCause says why a request is passed on, when it arrived, and how long it has waited.
type passOnCause struct {
	reason    passReason
	startedAt time.Time
	waits     *usage.WaitClock
	// relist says that the request reads all objects of a resource.
	relist bool
}

// Accounted reports whether a request is in the accounts of GETs and LISTs, also if it is passed
// on.
func Accounted(info *request.RequestInfo) bool {
	return info.Verb != "watch" && verbs[info.Verb] && accountedSubresources[info.Subresource]
}

// accountedSubresources are the subresources whose reads are in the accounts, because they
// return objects. Others, such as the log of a pod, are streams.
var accountedSubresources = map[string]bool{"": true, "status": true, "scale": true}

// passedOnShape returns the shape of a request that was passed on, as far as its
// parameters and the header of the answer tell. Malformed parameters are ignored.
func passedOnShape(req *http.Request, info *request.RequestInfo, answer http.Header) serverreport.Shape {
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	s := serverreport.Shape{
		Verb: info.Verb, Resource: schema.GroupResource{Group: info.APIGroup, Resource: resource}.String(), Version: info.APIVersion,
		Scope: scope(info.Namespace, info.Name), Path: serverreport.PathPassedOn,
	}
	values, _ := url.ParseQuery(req.URL.RawQuery)
	s.Revision = serverreport.RevisionMode(values.Get("resourceVersion"), values.Get("resourceVersionMatch"), values.Get("continue"))
	if info.Verb == "list" {
		s.Scope = scope(info.Namespace, "")
		s.Limit = parseLimit(values.Get("limit"))
		byLabel, _ := labels.Parse(values.Get("labelSelector"))
		byField, _ := fields.ParseSelector(values.Get("fieldSelector"))
		s.Selectors = selectorKeys(byLabel, byField, nil)
	}
	mediaType, _, _ := strings.Cut(answer.Get("Content-Type"), ";")
	key := formKey{mediaType: mediaType}
	accept := req.Header.Get("Accept")
	switch {
	case strings.Contains(accept, "as="+kindTable):
		key.as = kindTable
	case strings.Contains(accept, "as="+kindMetadata):
		key.as = kindMetadata
	}
	s.Encoding = key.encodingNames()[encodingIndex(encode.Encoding(answer.Get("Content-Encoding")))]
	return s
}

// writeMeter counts the bytes of an answer, and records its status and how long its writes
// wait.
type writeMeter struct {
	http.ResponseWriter
	waits  *usage.WaitClock
	bytes  int64
	status int // 0 before the header, and for 200 that was not written
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (m *writeMeter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (m *writeMeter) WriteHeader(status int) {
	m.status = status
	m.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (m *writeMeter) Write(b []byte) (int, error) {
	began := time.Now()
	n, err := m.ResponseWriter.Write(b)
	m.waits.Add(began)
	m.bytes += int64(n)
	return n, err
}

// parseLimit parses the parameter limit. It returns 0 for anything but a positive number.
func parseLimit(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, n)
}
