package analyze

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/display"
)

// Forecast says how a replica would answer the reads of a log (docs/design/replica.md). Watches are
// reads, too. A replica that follows etcd would also answer Shared and Unproven reads itself.
type Forecast struct {
	Reads uint64 `json:"reads"`
	// Answered counts reads that any replica answers, whatever it follows.
	Answered uint64 `json:"answered"`
	// Shared counts reads without a version that come while another one of the same URL is under
	// way. They share the next request to the API server. The number is an estimate, because only
	// URLs are compared.
	Shared uint64 `json:"shared"`
	// Unproven counts other reads without a version. A replica that follows an API server asks the
	// server for each, unless it can prove that nothing newer exists.
	Unproven uint64 `json:"unproven"`
	// PassedOn counts reads of what no replica holds, such as logs of pods.
	PassedOn uint64 `json:"passedOn"`
}

func (f *Forecast) add(g *Forecast) {
	f.Reads += g.Reads
	f.Answered += g.Answered
	f.Shared += g.Shared
	f.Unproven += g.Unproven
	f.PassedOn += g.PassedOn
}

// Text returns a sentence with the shares of the reads, "" if there are none.
func (f *Forecast) Text() string {
	if f.Reads == 0 {
		return ""
	}
	share := func(n uint64) string { return display.Percent(float64(n) / float64(f.Reads)) }
	return fmt.Sprintf("Behind a replica that follows the API server, about %s of the reads would be answered there and %s shared; "+
		"behind one that follows etcd, %s would be answered",
		share(f.Answered), share(f.Shared), share(f.Answered+f.Shared+f.Unproven))
}

// documents are the beginnings of the paths that a replica serves apart from resources: discovery
// and the OpenAPI.
var documents = []string{"/api", "/openapi"}

// forecastRead returns the forecast of one request. It is zero if the request is no read.
func (c *collector) forecastRead(e *auditlog.Event, s *serverreport.Shape) (f Forecast) {
	known := s.Version != "" && !strings.Contains(s.Resource, "/")
	isRead := s.Verb == "get" || s.Verb == "list" || s.Verb == "watch"
	switch {
	case !isRead || s.Version == "" && !strings.HasPrefix(s.Resource, documents[0]) && !strings.HasPrefix(s.Resource, documents[1]):
		return f
	case s.Version != "" && !known:
		f.PassedOn = 1
	case known && s.Verb != "watch" && s.Revision == serverreport.RevisionUnset:
		c.questions.add(e)
		f.Unproven = 1
	default:
		f.Answered = 1
	}
	f.Reads = 1
	return f
}

// questions are reads without a version, each of which may cause a request to an API server. Which
// of them share one is known at the end only, because events may come in any order.
//
// Beyond maxQuestions it keeps a sample: all reads of some slots of time, those with the smaller
// hashes. Which slots these are does not depend on the order of events.
type questions struct {
	kept []question
	// highest is the highest hash of a slot that is kept.
	highest uint64
}

const (
	maxQuestions = 300_000
	questionSlot = 10 * 1e6 // in microseconds
)

// question is a read: the hash of its URL, its begin in microseconds since 1970, and its duration in
// microseconds.
type question struct {
	url         uint64
	began, took int64
}

func newQuestions() questions { return questions{highest: math.MaxUint64} }

// slotHash returns the hash of the slot in which the question begins.
func (q *question) slotHash() uint64 {
	var slot [8]byte
	binary.LittleEndian.PutUint64(slot[:], uint64(q.began/questionSlot))
	return hash64(slot[:])
}

// add adds a read.
func (all *questions) add(e *auditlog.Event) {
	q := question{url: hash64(e.URI), began: e.Received}
	if q.began == 0 {
		q.began = e.Staged
	}
	q.took = max(0, e.Staged-q.began)
	if q.slotHash() > all.highest {
		return
	}
	all.kept = append(all.kept, q)
	for len(all.kept) > maxQuestions {
		all.highest /= 2
		all.kept = slices.DeleteFunc(all.kept, func(q question) bool { return q.slotHash() > all.highest })
	}
}

// sharedShare returns the part of the reads, from 0 to 1, that share a request that another read of
// their URL has caused. Reads that come while a request is under way wait for the next one, which
// they share.
func (all *questions) sharedShare() float64 {
	if len(all.kept) == 0 {
		return 0
	}
	slices.SortFunc(all.kept, func(a, b question) int {
		return cmp.Or(cmp.Compare(a.url, b.url), cmp.Compare(a.began, b.began), cmp.Compare(a.took, b.took))
	})
	shared := 0
	// The request under way ends at ends, and the next one at nextEnds, which is 0 if no read waits
	// for it.
	var url uint64
	var ends, nextEnds int64
	for _, q := range all.kept {
		if q.url != url {
			url, ends, nextEnds = q.url, 0, 0
		}
		if q.began >= ends && nextEnds > 0 { // the next request is under way now
			ends, nextEnds = nextEnds, 0
		}
		switch {
		case q.began >= ends:
			ends = q.began + q.took
		case nextEnds > 0:
			shared++
		default:
			nextEnds = ends + q.took
		}
	}
	return float64(shared) / float64(len(all.kept))
}
