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

// answers are what a client received for reads of one kind.
type answers struct {
	times []time.Duration
	// byUpstream is how many the upstream gave: it says by which FlowSchema they went.
	byUpstream int
	refused    int // with 429
}

// send sends a request and reads the answer.
func (a *answers) send(rt http.RoundTripper, req *http.Request) error {
	began := time.Now()
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
	a.times = append(a.times, time.Since(began))
	if resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) != "" {
		a.byUpstream++
	}
	return nil
}

func (a *answers) add(other *answers) {
	a.times = append(a.times, other.times...)
	a.byUpstream += other.byUpstream
	a.refused += other.refused
}

// stream is the requests of one kind that one client sends to one front.
type stream struct {
	kind    string
	rt      http.RoundTripper
	req     *http.Request
	answers answers
}

func (s *stream) send() error { return s.answers.send(s.rt, s.req) }

func (s *stream) result() readResult {
	a := &s.answers
	return readResult{Kind: s.kind, Requests: len(a.times), ByUpstream: a.byUpstream, Refused: a.refused, Millis: render.Summarize(a.times)}
}

// turn is how many requests of each kind a front gets before the next one has its turn.
const turn = 10

// readInTurn has one client send all reads to one front after the other, again and again.
func (b *bench) readInTurn(ctx context.Context, res result) ([]result, error) {
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
	for _, of := range streams {
		for k := range of {
			of[k].answers = answers{}
		}
	}
	for left := b.opts.plan.Requests; left > 0; left -= turn {
		if err := b.sendAll(ctx, streams, min(turn, left)); err != nil {
			return nil, err
		}
	}
	results := make([]result, len(b.fronts))
	for i, of := range streams {
		results[i] = res
		results[i].Front = b.fronts[i].name
		for k := range of {
			results[i].Reads = append(results[i].Reads, of[k].result())
		}
	}
	return results, nil
}

// sendAll sends so many requests of each kind to each front. A pause before each lets writes
// come between: otherwise one read would find what the server has done for the one before.
func (b *bench) sendAll(ctx context.Context, streams [][]stream, n int) error {
	for i, of := range streams {
		for range n {
			for k := range of {
				if err := testbed.Sleep(ctx, b.opts.plan.Pause); err != nil {
					return err
				}
				if err := of[k].send(); err != nil {
					return fmt.Errorf("%s at %s: %w", of[k].kind, b.fronts[i].name, testbed.Cause(ctx, err))
				}
			}
		}
	}
	return nil
}
