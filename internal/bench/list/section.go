package list

import (
	"context"

	"github.com/millrace/millrace/internal/bench/load"
)

const (
	listMemory  = "list-memory"
	listRSS     = "list-rss"
	listStalled = "list-stalled"
)

// section is a measurement of memory. With --compare it gets a fresh server,
// and in a report a table of its own.
type section struct {
	name, about string
	// apart sections need data that is filled in for them alone.
	apart bool
	// run puts what it measured, or why it could not, into the report. Only
	// what ends the whole run is returned as an error.
	run func(*bench, context.Context, *load.Loader, *serverReport) error
}

// sections is the catalogue, in the order in which they are run.
func sections() []section {
	return []section{
		{name: listMemory, about: "memory for each concurrent LIST of all pods with slow readers", run: (*bench).memory},
		{name: listRSS, about: "memory at rest, and after LISTs of all pods in four encodings", run: (*bench).rss},
		{name: listStalled, about: "memory under 64 LISTs of all secrets, half of them read slowly", apart: true, run: (*bench).stalled},
	}
}

// concluded is what a section does with an error: one that ends the run is
// returned, any other is told and left to the report.
func (b *bench) concluded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.log.Phase("failed: %v", err)
	}
	return nil
}

// completed builds a workload of the first resource version that was asked for.
func (b *bench) completed(s spec) (load.Workload, error) {
	w, err := s.workload(subject{}, b.opts.resourceVersions[0])
	w.MinItems = s.expected(b.report.Data)
	return w, err
}

// specNamed is one of the catalogue.
func specNamed(name string) spec {
	for _, s := range specs() {
		if s.name == name {
			return s
		}
	}
	return spec{}
}
