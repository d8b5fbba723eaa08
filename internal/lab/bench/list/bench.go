package list

import (
	"context"

	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// bench is one run of "bench list".
type bench struct {
	opts     *options
	progress *testbed.Progress
	report   *report

	sampleFound bool // report.Samples is set; a cluster without pods leaves it empty
}

// floorSource is a workload that a server has answered, with the body that the floor is to
// send for it.
type floorSource struct {
	workload load.Workload
	body     floor.Body
}

// floorWorkload returns the workload that requests the same bytes from the floor.
func (source floorSource) floorWorkload() load.Workload {
	w := source.workload
	w.URI = source.body.URI()
	return w
}

// measure runs all workloads against one server, and adds the results to s. It returns the
// workloads that were answered. A workload that fails is part of the report. An error ends the
// whole run.
func (b *bench) measure(ctx context.Context, l *load.Loader, s *serverReport) ([]floorSource, error) {
	idle, err := l.Meter.Read()
	if err != nil {
		return nil, err
	}
	s.IdleBytes = idle.RSS
	workloads, err := b.workloads(ctx, l.Target)
	if err != nil {
		return nil, err
	}
	var sources []floorSource
	for _, w := range workloads {
		res, first, err := l.Run(ctx, w)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			b.progress.Phase("failed: %v", err)
			s.Results = append(s.Results, load.Result{Workload: w.Name, URI: w.URI, Error: err.Error()})
			continue
		}
		s.Results = append(s.Results, res)
		sources = append(sources, floorSource{w, first.Body})
	}
	return sources, nil
}

// workloads returns the chosen workloads, completed with objects of the cluster. It looks for
// these in the first server alone, so that all servers get the same requests.
func (b *bench) workloads(ctx context.Context, t *testbed.Target) ([]load.Workload, error) {
	chosen := b.opts.chosen.specs
	if len(chosen) > 0 && !b.sampleFound {
		var err error
		if b.report.Samples, err = findSample(ctx, t); err != nil {
			return nil, err
		}
		b.sampleFound = true
	}
	var all []load.Workload
	for i, resourceVersion := range b.opts.resourceVersions {
		for _, s := range chosen {
			if s.paged && i > 0 {
				continue // a paged workload does not depend on the resource version
			}
			w, err := s.workload(b.report.Samples, resourceVersion)
			if err != nil {
				return nil, err
			}
			w.MinItems = s.expectedItems(b.report.Data)
			all = append(all, w)
		}
	}
	return all, nil
}
