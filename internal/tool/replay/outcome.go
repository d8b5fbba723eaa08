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
	// took is the time until the end of the answer, for a watch until the answer started.
	took time.Duration
	err  error
	// noPage says that the request was not sent, because its list had no further page.
	noPage bool
	// cutShort says that the server ended a watch that is open to the end of the log.
	cutShort bool
}

// outcome sums the results of a plan's requests. It is safe for several goroutines.
type outcome struct {
	plan    *plan
	mu      sync.Mutex // guards all fields below
	clients map[serverreport.Client]*clientSums
	shapes  map[serverreport.Shape]*ShapeOutcome
	// firstError is the error of the first request without an answer.
	firstError error
	lateness   samples
	cutShort   int
	elapsed    time.Duration
}

// clientSums sums the results of one client.
type clientSums struct {
	ClientOutcome
	gets, lists, watches, writes samples
}

func newOutcome(p *plan) *outcome {
	return &outcome{plan: p, clients: map[serverreport.Client]*clientSums{}, shapes: map[serverreport.Shape]*ShapeOutcome{}}
}

// addLateness adds the time by which a request was sent too late.
func (o *outcome) addLateness(by time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lateness.add(by)
}

// add adds the result of a request.
func (o *outcome) add(r *request, v result) {
	who, shape := o.plan.instances[r.instance].client, o.plan.targets[r.target].shape
	o.mu.Lock()
	defer o.mu.Unlock()
	c, s := o.clients[who], o.shapes[shape]
	if c == nil {
		c = &clientSums{ClientOutcome: ClientOutcome{Client: who}}
		o.clients[who] = c
	}
	if s == nil {
		s = &ShapeOutcome{Shape: shape}
		o.shapes[shape] = s
	}
	if v.noPage {
		s.NoPage++
		return
	}
	s.Sent++
	c.Requests++
	c.Bytes += v.bytes
	c.Events += v.events
	switch {
	case v.err != nil:
		c.Unanswered++
		s.Unanswered++
		if o.firstError == nil {
			o.firstError = v.err
		}
	case v.status >= 400:
		c.Refused++
		s.Refused++
	}
	if v.cutShort {
		o.cutShort++
	}
	switch {
	case v.err != nil || v.status == 0:
	case shape.Verb == "watch":
		c.watches.add(v.took)
	case shape.Verb == "list":
		c.lists.add(v.took)
	case isWrite(shape.Verb):
		c.writes.add(v.took)
	default:
		c.gets.add(v.took)
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

// writeTo writes the sums to a report's outcome of the server. Clients are in the order of their
// bytes, the largest first.
func (o *outcome) writeTo(into *ServerOutcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	into.Seconds = o.elapsed.Seconds()
	into.Late = o.lateness.latencies()
	into.CutShort = o.cutShort
	for _, c := range o.clients {
		c.GetMillis, c.ListMillis = c.gets.latencies(), c.lists.latencies()
		c.WatchMillis, c.WriteMillis = c.watches.latencies(), c.writes.latencies()
		into.Clients = append(into.Clients, c.ClientOutcome)
	}
	slices.SortFunc(into.Clients, func(a, b ClientOutcome) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name(), b.Name()))
	})
	for _, s := range o.shapes {
		into.Shapes = append(into.Shapes, *s)
	}
	if o.firstError != nil {
		into.FirstError = o.firstError.Error()
	}
}
