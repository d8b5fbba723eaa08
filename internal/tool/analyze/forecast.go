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
	// Shared counts reads without a version that come while another read of the same URL is under
	// way, and share the next request to the API server. The number is an estimate, because only
	// URLs are compared.
	Shared uint64 `json:"shared"`
	// Unproven counts the reads without a version that are not shared. A replica that follows an
	// API server asks the server for each, unless it can prove that nothing newer exists.
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

// Text returns a sentence with the percentages of reads, "" without reads.
func (f *Forecast) Text() string {
	if f.Reads == 0 {
		return ""
	}
	percent := func(n uint64) string { return display.Percent(float64(n) / float64(f.Reads)) }
	return fmt.Sprintf("Behind a replica that follows the API server, about %s of the reads would be answered there and %s shared; "+
		"behind a replica that follows etcd, %s would be answered",
		percent(f.Answered), percent(f.Shared), percent(f.Answered+f.Shared+f.Unproven))
}

// documents are prefixes of the paths that a replica serves apart from resources: discovery and the
// OpenAPI.
var documents = []string{"/api", "/openapi"}

// forecastRead returns the forecast of one request. It is zero if the request is not a
// read of resources, discovery or the OpenAPI.
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

// questions are reads without a version. Each may cause a request to an API server, or share one.
// Which reads share a request is known at the end only, because events may come in any order.
//
// Beyond maxQuestions it keeps a sample: all reads of the slots of time with the smaller hashes.
// The choice of slots does not depend on the order of events.
type questions struct {
	kept []question
	// maxHash is the largest hash of a slot that is kept.
	maxHash uint64
}

const (
	maxQuestions       = 300_000
	questionSlotMicros = 10 * 1e6
)

// question is a read.
type question struct {
	url   uint64 // hash
	start int64  // in microseconds since 1970
	took  int64  // in microseconds
}

func newQuestions() questions { return questions{maxHash: math.MaxUint64} }

// slotHash returns the hash of the slot in which the question starts.
func (q *question) slotHash() uint64 {
	var slot [8]byte
	binary.LittleEndian.PutUint64(slot[:], uint64(q.start/questionSlotMicros))
	return hash64(slot[:])
}

// add adds a read.
func (s *questions) add(e *auditlog.Event) {
	q := question{url: hash64(e.URI), start: e.Received}
	if q.start == 0 {
		q.start = e.StageReached
	}
	q.took = max(0, e.StageReached-q.start)
	if q.slotHash() > s.maxHash {
		return
	}
	s.kept = append(s.kept, q)
	for len(s.kept) > maxQuestions {
		s.maxHash /= 2
		s.kept = slices.DeleteFunc(s.kept, func(q question) bool { return q.slotHash() > s.maxHash })
	}
}

// sharedFraction returns the fraction of the reads that share a request that another read of their
// URL has caused. Reads that come while a request is under way wait for the next request, and share
// it.
func (s *questions) sharedFraction() float64 {
	if len(s.kept) == 0 {
		return 0
	}
	slices.SortFunc(s.kept, func(a, b question) int {
		return cmp.Or(cmp.Compare(a.url, b.url), cmp.Compare(a.start, b.start), cmp.Compare(a.took, b.took))
	})
	shared := 0
	var url uint64
	var end, nextEnd int64 // of the request under way, and of the next request; 0: no read waits for it
	for _, q := range s.kept {
		if q.url != url {
			url, end, nextEnd = q.url, 0, 0
		}
		if q.start >= end && nextEnd > 0 { // the next request is under way now
			end, nextEnd = nextEnd, 0
		}
		switch {
		case q.start >= end:
			end = q.start + q.took
		case nextEnd > 0:
			shared++
		default:
			nextEnd = end + q.took
		}
	}
	return float64(shared) / float64(len(s.kept))
}
