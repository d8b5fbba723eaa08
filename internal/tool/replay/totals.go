package replay

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/render"
)

// result is the outcome of one request.
type result struct {
	// status is 0 if there was no answer.
	status int
	bytes  int64 // of the body as it was sent
	events int64 // of a watch
	// took is the time until the end of the answer, or of a watch until the answer started.
	took time.Duration
	err  error
	// noPage says that the request was not sent, because its list had no further page.
	noPage bool
	// cutShort says that a watch that is open to the end of the log ended before the replay did, or
	// was refused.
	cutShort bool
}

// totals sums the results of a plan's requests. Its methods are safe for several goroutines.
type totals struct {
	plan    *plan
	elapsed time.Duration // set when all requests have ended
	mu      struct {
		sync.Mutex
		clients map[serverreport.Client]*clientSums
		shapes  map[serverreport.Shape]*ShapeOutcome
		// firstError is the error of the first request without a complete answer.
		firstError error
		lateness   samples
		cutShort   int
	}
}

// clientSums sums the results of one client.
type clientSums struct {
	ClientOutcome
	gets, lists, watches, writes samples
}

func newTotals(p *plan) *totals {
	t := &totals{plan: p}
	t.mu.clients, t.mu.shapes = map[serverreport.Client]*clientSums{}, map[serverreport.Shape]*ShapeOutcome{}
	return t
}

// addLateness adds the time by which a request was begun too late, without the wait for its turn.
func (t *totals) addLateness(by time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.lateness.add(by)
}

// add adds the result of a request.
func (t *totals) add(r *request, res result) {
	client, shape := t.plan.instances[r.instance].client, t.plan.targets[r.target].shape
	t.mu.Lock()
	defer t.mu.Unlock()
	c, s := t.mu.clients[client], t.mu.shapes[shape]
	if c == nil {
		c = &clientSums{ClientOutcome: ClientOutcome{Client: client}}
		t.mu.clients[client] = c
	}
	if s == nil {
		s = &ShapeOutcome{Shape: shape}
		t.mu.shapes[shape] = s
	}
	if res.noPage {
		s.NoPage++
		return
	}
	s.Sent++
	c.Requests++
	c.Bytes += res.bytes
	c.Events += res.events
	switch {
	case res.err != nil:
		c.Unanswered++
		s.Unanswered++
		if t.mu.firstError == nil {
			t.mu.firstError = res.err
		}
	case res.status >= 400:
		c.Refused++
		s.Refused++
	}
	if res.cutShort {
		t.mu.cutShort++
	}
	switch {
	case res.err != nil || res.status == 0: // a watch that ended before its answer has no time
	case shape.Verb == "watch":
		c.watches.add(res.took)
	case shape.Verb == "list":
		c.lists.add(res.took)
	case isWrite(shape.Verb):
		c.writes.add(res.took)
	default:
		c.gets.add(res.took)
	}
}

// samples keeps times, or a random sample of maxSamples of them (Vitter's algorithm R).
type samples struct {
	kept []time.Duration
	seen int
}

const maxSamples = 20_000

func (s *samples) add(d time.Duration) {
	s.seen++
	if len(s.kept) < maxSamples {
		s.kept = append(s.kept, d)
	} else if i := rand.IntN(s.seen); i < maxSamples {
		s.kept[i] = d
	}
}

// latencies returns the quantiles of the samples, nil if there are none.
func (s *samples) latencies() *render.Latencies {
	if len(s.kept) == 0 {
		return nil
	}
	l := render.Summarize(s.kept)
	return &l
}

// writeTo sets the server's part of the report: clients with most bytes first, shapes in no order.
func (t *totals) writeTo(server *ServerOutcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	server.Seconds = t.elapsed.Seconds()
	server.Late = t.mu.lateness.latencies()
	server.CutShort = t.mu.cutShort
	for _, c := range t.mu.clients {
		c.GetMillis, c.ListMillis = c.gets.latencies(), c.lists.latencies()
		c.WatchMillis, c.WriteMillis = c.watches.latencies(), c.writes.latencies()
		server.Clients = append(server.Clients, c.ClientOutcome)
	}
	slices.SortFunc(server.Clients, func(a, b ClientOutcome) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name(), b.Name()))
	})
	for _, s := range t.mu.shapes {
		server.Shapes = append(server.Shapes, *s)
	}
	if t.mu.firstError != nil {
		server.FirstError = t.mu.firstError.Error()
	}
}
