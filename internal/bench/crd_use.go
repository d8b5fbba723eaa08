package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	openAPIV2Path = "/openapi/v2"
	openAPIV3Path = "/openapi/v3"
	// crdNamespace is there on every server.
	crdNamespace = "default"
)

// crdRequest is a kind of request, of which one goes to each of some definitions,
// round by round.
type crdRequest struct {
	name        string
	want        int
	definitions []int
	rounds      int
	change      func(definition, round int) change
}

const (
	// laterRounds are those of requests that are not the first of their kind. A server
	// collects garbage after hundreds of writes only, and that is part of what they cost.
	laterRounds = 10
	firstObject = "bench-first"
)

// laterObject is that which is made in a round.
func laterObject(round int) string { return fmt.Sprintf("bench-%d", round) }

// requests are in the order in which they are sent: a first one must be.
func (b *crdBench) requests() []crdRequest {
	asked, written := b.opts.sampled()
	list := func(i, _ int) change { return b.list(i) }
	return []crdRequest{
		{"first list of a kind", http.StatusOK, asked, 1, list},
		{"list", http.StatusOK, asked, laterRounds, list},
		{"first create of a kind", http.StatusCreated, written, 1, func(i, _ int) change { return b.create(i, firstObject) }},
		{"create", http.StatusCreated, written, laterRounds, func(i, round int) change { return b.create(i, laterObject(round)) }},
		{"first apply of a kind", http.StatusOK, written, 1, func(i, _ int) change { return b.apply(i, firstObject, 4) }},
		{"apply", http.StatusOK, written, laterRounds, func(i, round int) change { return b.apply(i, laterObject(round), 5) }},
		{"merge patch", http.StatusOK, written, laterRounds, func(i, round int) change { return b.patch(i, laterObject(round)) }},
	}
}

// use sends the requests one after another over one connection.
func (b *crdBench) use(ctx context.Context) error {
	for _, op := range b.requests() {
		before, err := b.meter.read()
		if err != nil {
			return err
		}
		var samples []time.Duration
		refused := 0
		for i := range op.rounds * len(op.definitions) {
			ch, start := op.change(op.definitions[i%len(op.definitions)], i/len(op.definitions)), time.Now()
			n, err := b.server.target.writePatiently(ctx, b.conn, ch, op.want)
			if err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
			refused += n
			samples = append(samples, time.Since(start))
		}
		after, err := b.meter.read()
		if err != nil {
			return err
		}
		b.to.Requests = append(b.to.Requests, crdRequestResult{Name: op.name, Kinds: len(op.definitions), Rounds: op.rounds, Refused: refused, Millis: summarize(samples),
			CPUMillis: millis(after.cpu-before.cpu) / float64(len(samples))})
	}
	var err error
	b.to.Used, err = b.settled(ctx)
	return err
}

func (b *crdBench) list(definition int) change {
	return change{method: http.MethodGet, uri: b.generator.Definition(definition).Path(crdNamespace)}
}

func (b *crdBench) create(definition int, name string) change {
	body, err := json.Marshal(b.generator.CustomObjectOf(definition, crdNamespace, name))
	if err != nil {
		panic(fmt.Sprintf("encode a custom object: %v", err)) // it is plain JSON
	}
	return change{method: http.MethodPost, uri: b.generator.Definition(definition).Path(crdNamespace), contentType: acceptJSON, body: body}
}

func (b *crdBench) apply(definition int, name string, replicas int) change {
	d := b.generator.Definition(definition)
	return change{
		method: http.MethodPatch, contentType: "application/apply-patch+yaml",
		uri: d.Path(crdNamespace) + "/" + name + "?fieldManager=bench&force=true",
		body: fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":%q,"metadata":{"name":%q},"spec":{"class":"standard","replicas":%d}}`,
			d.Group, d.Kind, name, replicas),
	}
}

func (b *crdBench) patch(definition int, name string) change {
	return change{
		method: http.MethodPatch, contentType: "application/merge-patch+json",
		uri:  b.generator.Definition(definition).Path(crdNamespace) + "/" + name,
		body: []byte(`{"spec":{"replicas":6}}`),
	}
}
