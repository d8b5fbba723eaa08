package analyze

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/display"
)

// Forecast is what would become of a log's reads, watches among them, behind a replica
// (docs/design/replica.md). A replica that follows etcd answers Unproven and Shared ones, too.
type Forecast struct {
	Reads uint64 `json:"reads"`
	// Answered are those that a replica answers, whatever it follows.
	Answered uint64 `json:"answered"`
	// Shared are reads without a version that come while another one of the same URL is under
	// way, and have one question with others. It is an estimate: only the URL is compared.
	Shared uint64 `json:"shared"`
	// Unproven are other reads without a version: a replica that follows an API server asks that
	// for each, unless it can prove that nothing newer exists.
	Unproven uint64 `json:"unproven"`
	// PassedOn are reads of what no replica holds, as the logs of pods.
	PassedOn uint64 `json:"passedOn"`
}

func (f *Forecast) add(g *Forecast) {
	f.Reads, f.Answered, f.Shared = f.Reads+g.Reads, f.Answered+g.Answered, f.Shared+g.Shared
	f.Unproven, f.PassedOn = f.Unproven+g.Unproven, f.PassedOn+g.PassedOn
}

// Text says what becomes of the reads, "" if there are none.
func (f *Forecast) Text() string {
	if f.Reads == 0 {
		return ""
	}
	share := func(n uint64) string { return display.Percent(float64(n) / float64(f.Reads)) }
	return fmt.Sprintf("Behind a replica that follows the API server, about %s of the reads would be answered there and %s shared; behind one that follows etcd, %s would be answered",
		share(f.Answered), share(f.Shared), share(f.Answered+f.Shared+f.Unproven))
}

// documents are the paths of what a replica holds beside resources.
var documents = []string{"/api", "/openapi"}

// forecast says what would become of one read. It counts nothing of other requests.
func (c *collector) forecast(e *auditlog.Event, s *serverreport.Shape) (f Forecast) {
	known := s.Version != "" && !strings.Contains(s.Resource, "/")
	isRead := s.Verb == "get" || s.Verb == "list" || s.Verb == "watch"
	switch {
	case !isRead || s.Version == "" && !strings.HasPrefix(s.Resource, documents[0]) && !strings.HasPrefix(s.Resource, documents[1]):
		return f
	case s.Version != "" && !known:
		f.PassedOn = 1
	case known && s.Verb != "watch" && s.Revision == serverreport.RevisionUnset:
		if c.questions.share(e) {
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

const maxQuestions = 50_000

// questions are what a replica would ask of an API server, by URL: for each one that is under
// way, and one that gathers those who come meanwhile.
type questions map[uint64]question

// question has when the one under way ends, and the one behind it, in microseconds since 1970;
// behind is 0 if nobody has come for it.
type question struct{ ends, behind int64 }

// share reports whether a read shares a question that another one of its URL has begun.
func (all questions) share(e *auditlog.Event) bool {
	from := e.Received
	if from == 0 {
		from = e.Staged
	}
	took := max(0, e.Staged-from)
	if len(all) >= maxQuestions {
		clear(all)
	}
	url := hashOf(e.URI)
	q := all[url]
	if from >= q.ends && q.behind > 0 { // the one behind is under way now
		q = question{ends: q.behind}
	}
	switch {
	case from >= q.ends:
		q = question{ends: from + took}
	case q.behind > 0:
		return true
	default:
		q.behind = q.ends + took
	}
	all[url] = q
	return false
}
