package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// futureDistance is how far behind the newest revision that a client has seen the revision
// of a request is that no server has.
const futureDistance = 1 << 40

// reader sends random GETs and LISTs, one after another.
type reader struct {
	run     *run
	id      string
	rand    *rand.Rand
	servers []*server
}

func (r *reader) work(ctx context.Context) {
	for ctx.Err() == nil {
		wait := r.run.cfg.ReadPause
		if r.read(ctx, r.pick()).unknown() {
			wait = max(wait, refusedPause) // the server may be down
		}
		pause(ctx, wait)
	}
}

// pick makes the next request of the scorecard, or a random GET.
func (r *reader) pick() Request {
	resources := r.run.fixture.resources
	req := Request{Verb: "get", Class: []versionClass{unset, unset, zero, known}[r.rand.IntN(4)], Form: forms[r.rand.IntN(len(forms))]}
	if r.rand.IntN(3) > 0 {
		req = r.run.reads.next()
	}
	req.Resource, req.Name, req.Half = resources[r.rand.IntN(len(resources))].name, r.run.keyName(r.rand), halves[r.rand.IntN(len(halves))]
	if req.Limit > 0 {
		req.Limit = []int{1, 2, 3, 4, 100, 100}[r.rand.IntN(6)]
	}
	req.Version = r.run.version(r.rand, req.Class)
	return req
}

func (r *run) version(random *rand.Rand, class versionClass) string {
	newest := r.record.newest()
	switch class {
	case zero:
		return "0"
	case known:
		// A revision of the run's last part: servers keep the changes of some time.
		oldest := max(r.began, newest-int64(random.IntN(recentRevisions)))
		return strconv.FormatInt(max(oldest, 1), 10)
	case ahead:
		return strconv.FormatInt(newest+1+random.Int64N(aheadRevisions), 10)
	case future:
		return strconv.FormatInt(newest+futureDistance, 10)
	case gone:
		return "1"
	default:
		return ""
	}
}

// aheadRevisions is how far ahead of the newest revision watches begin that ask for one which
// there will be in a moment.
const aheadRevisions = 20

// recentRevisions is how far back requests for a known revision go.
const recentRevisions = 100

// endlessPages is how many pages beyond one for each name a list may have.
const endlessPages = 10

// read sends a request and notes the answer, unless the context has ended before it came. The
// pages of a list are one read.
func (r *reader) read(ctx context.Context, req Request) *Read {
	s := r.servers[r.rand.IntN(len(r.servers))]
	rec := &Read{Request: req}
	rec.Server, rec.Client, rec.Called = s.index, r.id, r.run.now()
	query := req.query()
	for {
		got, err := s.call(ctx, http.MethodGet, r.run.path(&req), query, req.header(), nil)
		rec.Returned = r.run.now()
		if err != nil {
			rec.Status, rec.Err = 0, err.Error()
		}
		if ctx.Err() != nil {
			return rec // the run has ended
		}
		if err != nil {
			break
		}
		if rec.Status = got.status; !rec.ok() {
			rec.Err = statusText(got.body)
			break
		}
		next, err := rec.parse(got.body)
		if err != nil {
			rec.Err = err.Error()
			break
		}
		if next == "" {
			break
		}
		if len(rec.Pages) > r.run.cfg.Keys+endlessPages {
			rec.Err = fmt.Sprintf("%d pages are no end of the list", len(rec.Pages))
			break
		}
		query = url.Values{"limit": query["limit"], "continue": {next}, "labelSelector": query["labelSelector"], "fieldSelector": query["fieldSelector"]}
	}
	r.run.record.addRead(rec, rec.outcome())
	return rec
}

// outcome names the answer in the scorecard.
func (r *Read) outcome() string {
	switch {
	case r.Status == 0:
		return "no answer"
	case r.ok() && len(r.Pages) > 1 && r.Class != zero: // from a cache, servers may ignore a limit
		return outcomePages
	}
	return strconv.Itoa(r.Status)
}

// path is that of the object, or of the collection.
func (r *run) path(req *Request) string {
	collection := r.fixture.resource(req.Resource).collection
	if req.Verb == "get" {
		return collection + "/" + url.PathEscape(req.Name)
	}
	return collection
}

func (req *Request) query() url.Values {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("resourceVersion", req.Version)
	set("resourceVersionMatch", req.Match)
	if req.Limit > 0 {
		set("limit", strconv.Itoa(req.Limit))
	}
	switch req.Select {
	case selectLabel:
		set("labelSelector", halfLabel+"="+req.Half)
	case selectField:
		set("fieldSelector", "metadata.name="+req.Name)
	}
	return query
}

func (req *Request) header() http.Header {
	list := ""
	if req.Verb != "get" {
		list = "List"
	}
	switch req.Form {
	case formMetadata:
		return http.Header{"Accept": {"application/json;as=PartialObjectMetadata" + list + ";g=meta.k8s.io;v=v1"}}
	case formTable:
		return http.Header{"Accept": {"application/json;as=Table;g=meta.k8s.io;v=v1"}}
	}
	return http.Header{"Accept": {"application/json"}}
}

// parse takes the objects of an answer. It returns the token of the next page.
func (r *Read) parse(body []byte) (next string, err error) {
	var got answerBody
	if err := json.Unmarshal(body, &got); err != nil {
		return "", fmt.Errorf("%w: %w", errMalformed, err)
	}
	objects := got.Items
	for i := range got.Rows {
		objects = append(objects, got.Rows[i].Object)
	}
	if r.Verb == "get" && r.Form != formTable {
		objects = []metav1.PartialObjectMetadata{{ObjectMeta: got.Metadata.ObjectMeta}}
	}
	for i := range objects {
		o := &objects[i]
		revision, err := parseRevision(o.ResourceVersion)
		if err != nil {
			return "", err
		}
		r.Objects = append(r.Objects, Object{
			Key: watchcheck.Key{Namespace: o.Namespace, Name: o.Name}, Revision: revision,
			Value: o.Labels[valueLabel], Half: o.Labels[halfLabel], UID: o.UID,
		})
	}
	if r.Verb == "get" {
		return "", nil
	}
	revision, err := parseRevision(got.Metadata.ResourceVersion)
	if err != nil {
		return "", err
	}
	if len(r.Pages) == 0 {
		r.Revision = revision
	}
	p := page{revision: revision, objects: len(objects), remaining: -1}
	if remaining := got.Metadata.RemainingItemCount; remaining != nil {
		p.remaining = *remaining
	}
	r.Pages = append(r.Pages, p)
	return got.Metadata.Continue, nil
}
