package analyze

import (
	"fmt"
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
		if c.questions.isShared(e) {
			f.Shared = 1
		} else {
			f.Unproven = 1
		}
	default:
		f.Answered = 1
	}
	f.Reads = 1
	return f
}

// maxQuestions bounds questions, which are forgotten beyond it.
const maxQuestions = 50_000

// questions are the requests that a replica would have under way at an API server, by the hash of
// the URL. Reads that come while one is under way wait for the next one, which they share.
type questions map[uint64]question

// question has the time at which the request under way ends, and at which the next request ends, in
// microseconds since 1970. nextEnds is 0 if no read waits for a next request.
type question struct{ ends, nextEnds int64 }

// isShared reports whether a read shares a request that another read of its URL has caused. The
// caller must call it for the reads in the order of time.
func (all questions) isShared(e *auditlog.Event) bool {
	from := e.Received
	if from == 0 {
		from = e.Staged
	}
	took := max(0, e.Staged-from)
	if len(all) >= maxQuestions {
		clear(all)
	}
	url := hash64(e.URI)
	q := all[url]
	if from >= q.ends && q.nextEnds > 0 { // the next request is under way now
		q = question{ends: q.nextEnds}
	}
	switch {
	case from >= q.ends:
		q = question{ends: from + took}
	case q.nextEnds > 0:
		return true
	default:
		q.nextEnds = q.ends + took
	}
	all[url] = q
	return false
}
