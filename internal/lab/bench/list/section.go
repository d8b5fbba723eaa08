package list

import (
	"context"

	"github.com/millrace/millrace/internal/lab/bench/load"
)

const (
	listMemory      = "list-memory"
	listRSS         = "list-rss"
	listSlowReaders = "list-stalled"
)

// section is a measurement of memory. It has a table of its own in the report, and runs on a
// fresh server with --compare.
type section struct {
	name, description string
	// needsOwnData sections cannot share their data with workloads or other sections.
	needsOwnData bool
	// run measures, and sets the result or the failure in the report. An error ends the
	// whole run.
	run func(*bench, context.Context, *load.Loader, *serverReport) error
}

// sections returns the catalogue of sections, in the order in which they run.
func sections() []section {
	return []section{
		{name: listMemory, description: "memory for each concurrent LIST of all pods with slow readers", run: (*bench).runMemory},
		{name: listRSS, description: "memory at rest, and after LISTs of all pods in four encodings", run: (*bench).runRSS},
		{name: listSlowReaders, description: "memory under 64 LISTs of all secrets, half of them read slowly", needsOwnData: true,
			run: (*bench).runSlowReaders},
	}
}

// reportFailure shows the user the error of a measurement, which is part of the report and may
// be nil. If ctx has ended, it returns the cause instead, which ends the run.
func (b *bench) reportFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.progress.Phase("failed: %v", err)
	}
	return nil
}

// workloadOf completes a spec that needs no sample objects, for the first value of
// --resource-version.
func (b *bench) workloadOf(s workloadSpec) (load.Workload, error) {
	w, err := s.workload(sampleObjects{}, b.opts.resourceVersions[0])
	w.MinItems = s.expectedItems(b.report.Data)
	return w, err
}

// specByName returns a spec of the catalogue, or the zero value if there is none.
func specByName(name string) workloadSpec {
	for _, s := range specs() {
		if s.name == name {
			return s
		}
	}
	return workloadSpec{}
}
