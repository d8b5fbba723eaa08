package quiet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// answers are the answers that clients received to reads of one kind.
type answers struct {
	times []time.Duration // from the request to the last byte
	// byUpstream is the number of answers that the upstream gave. Only the upstream adds the header
	// that names the FlowSchema.
	byUpstream int
	refused    int // answers with 429
}

// send sends a request, reads the answer and adds it to a.
func (a *answers) send(rt http.RoundTripper, req *http.Request) error {
	start := time.Now()
	resp, err := testbed.Send(rt, req)
	if testbed.RetryAfter(err) > 0 {
		a.refused++
		return nil
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	a.times = append(a.times, time.Since(start))
	if resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) != "" {
		a.byUpstream++
	}
	return nil
}

// add adds other answers to a.
func (a *answers) add(other *answers) {
	a.times = append(a.times, other.times...)
	a.byUpstream += other.byUpstream
	a.refused += other.refused
}

// stream has the requests of one kind that one client sends to one front, and their answers. One
// goroutine may use it at a time.
type stream struct {
	kind    string
	rt      http.RoundTripper
	req     *http.Request
	answers answers
}

// send sends the request once.
func (s *stream) send() error { return s.answers.send(s.rt, s.req) }

// result returns the answers as a part of the report.
func (s *stream) result() readResult {
	a := &s.answers
	return readResult{Kind: s.kind, Requests: len(a.times), ByUpstream: a.byUpstream, Refused: a.refused, Millis: render.Summarize(a.times)}
}

// turn is the number of requests of each kind that a front gets before the next front has its turn.
const turn = 10

// readAlternately sends all reads with one client, to one front after the other, until each has the
// requests of the plan. It returns a result for each front.
func (b *bench) readAlternately(ctx context.Context, res result) ([]result, error) {
	streams := make([][]stream, len(b.fronts)) // by front and kind
	for i, f := range b.fronts {
		transport, rt, err := f.server.Target.NewTransport(0)
		if err != nil {
			return nil, err
		}
		defer transport.CloseIdleConnections()
		for _, kind := range reads() {
			req, err := f.server.Target.NewRequest(ctx, testbed.Request{URI: kind.uri, Accept: testbed.AcceptJSON})
			if err != nil {
				return nil, err
			}
			streams[i] = append(streams[i], stream{kind: kind.kind, rt: rt, req: req})
		}
	}
	for until, first := time.Now().Add(b.opts.plan.Warmup), true; first || time.Now().Before(until); first = false {
		if err := b.sendAll(ctx, streams, 1); err != nil {
			return nil, err
		}
	}
	for _, kinds := range streams {
		for k := range kinds {
			kinds[k].answers = answers{}
		}
	}
	for left := b.opts.plan.Requests; left > 0; left -= turn {
		if err := b.sendAll(ctx, streams, min(turn, left)); err != nil {
			return nil, err
		}
	}
	results := make([]result, len(b.fronts))
	for i, kinds := range streams {
		results[i] = res
		results[i].Front = b.fronts[i].name
		for k := range kinds {
			results[i].Reads = append(results[i].Reads, kinds[k].result())
		}
	}
	return results, nil
}

// sendAll sends n requests of each kind to each front. Writes happen in the pause before each
// request. Otherwise a read could use what the server has done for the read before.
func (b *bench) sendAll(ctx context.Context, streams [][]stream, n int) error {
	for i, kinds := range streams {
		for range n {
			for k := range kinds {
				if err := testbed.Sleep(ctx, b.opts.plan.Pause); err != nil {
					return err
				}
				if err := kinds[k].send(); err != nil {
					return fmt.Errorf("%s at %s: %w", kinds[k].kind, b.fronts[i].name, testbed.Cause(ctx, err))
				}
			}
		}
	}
	return nil
}
