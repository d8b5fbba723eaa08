package papers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

// run runs the steps of a paper, and returns a report of the steps so far. If ctx ends, it also
// returns the cause.
func (o *options) run(ctx context.Context, version string, progress io.Writer) (*Report, error) {
	r := &Report{
		Paper: o.paper.Name, Scale: o.scale, Seed: 1, Millrace: version, Started: time.Now(), Machine: testbed.ThisMachine(), Kubeconfig: o.server.Kubeconfig != "",
	}
	if r.Kubeconfig {
		r.Seed = testbed.ExistingSeed
	}
	r.noteLoad()
	defer r.noteLoad()
	var chosen []step
	paper, err := loadPaper(o.paper.Name, o.size)
	if err != nil {
		return r, err
	}
	for _, s := range paper.Steps {
		if len(o.only) == 0 || slices.Contains(o.only, s.Name) {
			chosen = append(chosen, s)
		}
	}
	for i, s := range chosen {
		fmt.Fprintf(progress, "step %d of %d, %s\n", i+1, len(chosen), s.Name)
		result := o.runStep(ctx, s, progress)
		if len(result.Printed) > 0 || ctx.Err() == nil {
			r.Steps = append(r.Steps, result)
		}
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
	}
	return r, nil
}

// noteLoad adds the machine's load average over the last minute, if it can be read.
func (r *Report) noteLoad() {
	if average := testbed.LoadAverage(); average != "" {
		r.LoadAverages = append(r.LoadAverages, average)
	}
}

// runStep runs a bench as a user would.
func (o *options) runStep(ctx context.Context, s step, progress io.Writer) StepReport {
	args := slices.Concat(s.words(), o.benchArgs(s))
	result := StepReport{Name: s.Name, Args: args}
	start := time.Now()
	var printed bytes.Buffer
	cmd := bench.NewCommand()
	cmd.SetArgs(append(slices.Clone(args), "-o=json"))
	cmd.SetOut(&printed)
	cmd.SetErr(progress)
	if err := cmd.ExecuteContext(ctx); err != nil {
		// The lines after the first are the end of a child's log.
		result.Error, _, _ = strings.Cut(err.Error(), "\n")
		fmt.Fprintf(progress, "step %s failed: %v\n", s.Name, err)
	}
	result.Seconds = time.Since(start).Seconds()
	if text := printed.Bytes(); json.Valid(text) {
		result.Printed = text
	}
	return result
}

// provisionName is the name of the run in stepProvision. The names of its objects start with it.
const provisionName = "paper-b"

// removeData removes what a run has left at the server of --kubeconfig.
func (o *options) removeData(ctx context.Context, progress io.Writer) error {
	if err := bench.RemoveLeftovers(ctx, &o.server, provisionName); err != nil {
		return err
	}
	filler, err := fill.New(fill.Config{Server: o.server, Delete: true, Shape: fill.Shape{Seed: testbed.ExistingSeed}, Progress: progress})
	if err != nil {
		return err
	}
	if _, err = filler.Run(ctx); err == nil {
		fmt.Fprintln(progress, "removed what was left")
	}
	return err
}
