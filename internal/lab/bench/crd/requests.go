package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

const (
	OpenAPIV2Path = "/openapi/v2"
	OpenAPIV3Path = "/openapi/v3"
	// namespace exists on every server.
	namespace = "default"
)

// operation is a kind of request. In each round one is sent for each of the definitions.
type operation struct {
	name        string
	wantStatus  int
	definitions []int
	rounds      int
	change      func(definition, round int) testbed.Change
}

const (
	// laterRounds is the number of rounds of requests that are not the first of their kind. A
	// server collects garbage only after hundreds of writes, and the garbage is part of their
	// cost.
	laterRounds     = 10
	firstObjectName = "bench-first"
)

// laterObjectName returns the name of the objects of a round.
func laterObjectName(round int) string { return fmt.Sprintf("bench-%d", round) }

// operations returns the operations in the order in which they run. The first request for a kind
// of objects must come before the later ones.
func (b *bench) operations() []operation {
	listed, written := b.opts.sampleDefinitions()
	list := func(i, _ int) testbed.Change { return b.list(i) }
	return []operation{
		{"first list of a kind", http.StatusOK, listed, 1, list},
		{"list", http.StatusOK, listed, laterRounds, list},
		{"first create of a kind", http.StatusCreated, written, 1, func(i, _ int) testbed.Change { return b.create(i, firstObjectName) }},
		{"create", http.StatusCreated, written, laterRounds, func(i, round int) testbed.Change { return b.create(i, laterObjectName(round)) }},
		{"first apply of a kind", http.StatusOK, written, 1, func(i, _ int) testbed.Change { return b.apply(i, firstObjectName, 4) }},
		{"apply", http.StatusOK, written, laterRounds, func(i, round int) testbed.Change { return b.apply(i, laterObjectName(round), 5) }},
		{"merge patch", http.StatusOK, written, laterRounds, func(i, round int) testbed.Change { return b.patch(i, laterObjectName(round)) }},
	}
}

// useObjects measures all operations, one request after another over one connection.
func (b *bench) useObjects(ctx context.Context) error {
	for _, op := range b.operations() {
		before, err := b.Meter.Read()
		if err != nil {
			return err
		}
		var samples []time.Duration
		refused := 0
		for i := range op.rounds * len(op.definitions) {
			ch := op.change(op.definitions[i%len(op.definitions)], i/len(op.definitions))
			start := time.Now()
			n, err := b.Server.Target.WriteWithRetry(ctx, b.Conn, ch, op.wantStatus)
			if err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
			refused += n
			samples = append(samples, time.Since(start))
		}
		after, err := b.Meter.Read()
		if err != nil {
			return err
		}
		b.result.Requests = append(b.result.Requests, requestResult{Name: op.name, Kinds: len(op.definitions), Rounds: op.rounds,
			Refused: refused, Millis: render.Summarize(samples),
			CPUMillis: render.Millis(after.CPU-before.CPU) / float64(len(samples))})
	}
	var err error
	b.result.AfterRequests, err = b.AwaitIdle(ctx)
	return err
}

// list returns a LIST of the objects of a definition, in namespace.
func (b *bench) list(definition int) testbed.Change {
	return testbed.Change{Method: http.MethodGet, URI: b.Generator.Definition(definition).Path(namespace)}
}

// create returns the creation of a custom object.
func (b *bench) create(definition int, name string) testbed.Change {
	body, err := json.Marshal(b.Generator.CustomObjectOf(definition, namespace, name))
	if err != nil {
		panic(fmt.Sprintf("encode a custom object: %v", err)) // it consists of maps and strings
	}
	return testbed.Change{Method: http.MethodPost, URI: b.Generator.Definition(definition).Path(namespace),
		ContentType: testbed.AcceptJSON, Body: body}
}

// apply returns a server-side apply of a custom object.
func (b *bench) apply(definition int, name string, replicas int) testbed.Change {
	d := b.Generator.Definition(definition)
	return testbed.Change{
		Method: http.MethodPatch, ContentType: "application/apply-patch+yaml",
		URI: d.Path(namespace) + "/" + name + "?fieldManager=bench&force=true",
		Body: fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":%q,"metadata":{"name":%q},"spec":{"class":"standard","replicas":%d}}`,
			d.Group, d.Kind, name, replicas),
	}
}

// patch returns a merge patch of a custom object.
func (b *bench) patch(definition int, name string) testbed.Change {
	return testbed.Change{
		Method: http.MethodPatch, ContentType: "application/merge-patch+json",
		URI:  b.Generator.Definition(definition).Path(namespace) + "/" + name,
		Body: []byte(`{"spec":{"replicas":6}}`),
	}
}
