package list

import (
	"context"

	"github.com/millrace/millrace/internal/lab/bench/load"
)

const (
	listMemory  = "list-memory"
	listRSS     = "list-rss"
	listStalled = "list-stalled"
)

// section is a measurement of memory. It has a table of its own in the report, and with
// --compare a fresh server.
type section struct {
	name, description string
	// needsOwnData sections cannot share their data with workloads or other sections.
	needsOwnData bool
	// run measures, and sets the result or the failure in the report. An error ends the
	// whole run.
	run func(*bench, context.Context, *load.Loader, *serverReport) error
}

// sections is the catalogue of sections, in the order in which they run.
func sections() []section {
	return []section{
		{name: listMemory, description: "memory for each concurrent LIST of all pods with slow readers", run: (*bench).memory},
		{name: listRSS, description: "memory at rest, and after LISTs of all pods in four encodings", run: (*bench).rss},
		{name: listStalled, description: "memory under 64 LISTs of all secrets, half of them read slowly", needsOwnData: true, run: (*bench).stalled},
	}
}

// sectionError returns the cause if ctx has ended, which ends the run. Otherwise it tells
// the user of err, which may be nil and is part of the report.
func (b *bench) sectionError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.log.Phase("failed: %v", err)
	}
	return nil
}

// workloadOf completes a spec for the first value of --resource-version.
func (b *bench) workloadOf(s spec) (load.Workload, error) {
	w, err := s.workload(sampleObjects{}, b.opts.resourceVersions[0])
	w.MinItems = s.expectedItems(b.report.Data)
	return w, err
}

// specByName returns a spec of the catalogue.
func specByName(name string) spec {
	for _, s := range specs() {
		if s.name == name {
			return s
		}
	}
	return spec{}
}
