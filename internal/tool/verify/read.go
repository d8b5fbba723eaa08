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

// reader sends random GETs and LISTs, one after another.
type reader struct {
	run     *run
	id      string
	rand    *rand.Rand
	servers []*server
}

// work sends requests until the context ends.
func (r *reader) work(ctx context.Context) {
	for ctx.Err() == nil {
		wait := r.run.cfg.ReadPause
		if r.read(ctx, r.pickRequest()).hasUnknownOutcome() {
			wait = max(wait, refusedPause) // the server may be down
		}
		pause(ctx, wait)
	}
}

// pickRequest returns the next request of the scorecard, or a random GET.
func (r *reader) pickRequest() Request {
	classes := []versionClass{versionUnset, versionUnset, versionZero, versionSeen}
	req := Request{Verb: "get", Class: classes[r.rand.IntN(4)], Encoding: encodings[r.rand.IntN(len(encodings))]}
	if r.rand.IntN(3) > 0 {
		req = r.run.readCycle.next()
	}
	return r.run.completeRequest(req, r.rand)
}

// completeRequest returns a request of the scorecard for a random object, with a random limit
// and version of the kinds that the request has.
func (r *run) completeRequest(req Request, random *rand.Rand) Request {
	resources := r.fixture.resources
	req.Resource = resources[random.IntN(len(resources))].name
	req.Name = r.randomKeyName(random)
	req.Half = halves[random.IntN(len(halves))]
	if req.Limit > 0 {
		req.Limit = []int{1, 2, 3, 4, 100, 100}[random.IntN(6)]
	}
	req.Version = r.drawVersion(random, req.Class)
	return req
}

// drawVersion returns a resource version of a class, as a request sends it.
func (r *run) drawVersion(random *rand.Rand, class versionClass) string {
	newest := r.record.newestRevision()
	switch class {
	case versionZero:
		return "0"
	case versionSeen:
		// Servers keep changes for some time only.
		oldest := max(r.firstRevision, newest-int64(random.IntN(recentRevisions)))
		return strconv.FormatInt(max(oldest, 1), 10)
	case versionAhead:
		return strconv.FormatInt(newest+1+random.Int64N(aheadRevisions), 10)
	case versionFuture:
		return strconv.FormatInt(newest+futureDistance, 10)
	case versionExpired:
		return "1"
	default:
		return ""
	}
}

// Distances from the newest revision that a client has seen, of revisions in requests.
const (
	// recentRevisions is the greatest distance of versionSeen, backwards.
	recentRevisions = 100
	// aheadRevisions is the greatest distance of versionAhead. At the default rate of writes it
	// is reached within a second.
	aheadRevisions = 20
	// futureDistance is the distance of versionFuture.
	futureDistance = 1 << 40
)

// endlessPages is the number of pages, beyond one for each name, after which a list counts as
// endless.
const endlessPages = 10

// read sends a request and adds the answer to the record, unless the context ended before the
// answer came. The pages of a list are one read.
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
			rec.Err = fmt.Sprintf("the list does not end after %d pages", len(rec.Pages))
			break
		}
		query = nextPageQuery(query, next)
	}
	r.run.record.addRead(rec, rec.outcome())
	return rec
}

// nextPageQuery returns the parameters for the next page of a list. The version belongs to the
// token, and must not be repeated.
func nextPageQuery(query url.Values, token string) url.Values {
	return url.Values{
		"limit": query["limit"], "continue": {token},
		"labelSelector": query["labelSelector"], "fieldSelector": query["fieldSelector"],
	}
}

// outcome returns the name of the answer in the scorecard.
func (r *Read) outcome() string {
	switch {
	case r.Status == 0:
		return "no answer"
	case r.ok() && len(r.Pages) > 1 && r.Class != versionZero: // from a cache, servers may ignore a limit
		return outcomePages
	}
	return strconv.Itoa(r.Status)
}

// parse adds the objects of an answer to the read. It returns the token of the next page, ""
// after the last one. An error wraps errMalformed.
func (r *Read) parse(body []byte) (next string, err error) {
	var got answerBody
	if err := json.Unmarshal(body, &got); err != nil {
		return "", fmt.Errorf("%w: %w", errMalformed, err)
	}
	objects := got.Items
	for i := range got.Rows {
		objects = append(objects, got.Rows[i].Object)
	}
	if r.Verb == "get" && r.Encoding != encodingTable {
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
