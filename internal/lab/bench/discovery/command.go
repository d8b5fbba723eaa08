package discovery

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/crd"
	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const acceptOpenAPIProtobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

// options are the flags of "bench discovery".
type options struct {
	crd.Options
	duration   time.Duration
	rounds     int
	additions  int
	limits     []requestLimit // set by validate
	limitTexts []string       // the values of --limits
}

// validate checks the flags, and sets limits.
func (o *options) validate() error {
	switch {
	case o.duration < time.Millisecond:
		return fmt.Errorf("--duration=%s: must be at least %s", o.duration, time.Millisecond)
	case o.rounds < 1:
		return fmt.Errorf("--rounds=%d: must be at least 1", o.rounds)
	case o.additions < 1:
		return fmt.Errorf("--appear=%d: must be at least 1", o.additions)
	}
	o.limits = nil
	for _, text := range o.limitTexts {
		l, err := parseLimit(text)
		if err != nil {
			return err
		}
		o.limits = append(o.limits, l)
	}
	return o.Options.Validate()
}

// NewCommand returns the command "bench discovery".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "discovery",
		Short: "Measure discovery and OpenAPI",
		Long: `Measures what discovery and OpenAPI cost a server that has many custom resource
definitions: aggregated discovery whole and unchanged (304); the discovery of a
client that asks for every group version, with the rate limit of kubectl (300
requests at once, then 50 per second) and without; the time until a new definition is
in aggregated discovery; OpenAPI v2 in both encodings, plain and with gzip; the
root of OpenAPI v3 and the document of one group version.

It starts millrace itself, over an empty data directory that it fills: with
--compare with one read path after the other, otherwise with the first. Then it
restarts millrace, so that the first request for each document is cold. With --at
it fills and measures a running server, and restarts nothing.`,
		Example: `  millrace-lab bench discovery --compare --crds 2000 --groups 400
  millrace-lab bench discovery --crds 50 --groups 10 --duration 1s
  millrace-lab bench discovery --from report.json -o markdown`,
	}
	testbed.Subcommand{
		Validate: o.validate,
		From:     &o.From, Output: &o.Output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, o, to) },
	}.Bind(cmd)
	o.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&o.duration, "duration", 5*time.Second, "how long to repeat each request")
	cmd.Flags().IntVar(&o.rounds, "rounds", 3, "how often each client discovers all resources")
	cmd.Flags().StringSliceVar(&o.limitTexts, "limits", []string{noLimit, kubectlLimit},
		"limits of clients that ask for every group version: requests per second and the burst, or \""+noLimit+"\"")
	cmd.Flags().IntVar(&o.additions, "appear", 10, "definitions to add, one after another")
	return cmd
}

// execute measures and prints the report, also after an interrupt. It returns an error if a
// measurement failed, or the cause of the interrupt.
func execute(ctx context.Context, o *options, to testbed.Streams) error {
	report := &report{
		Started: time.Now(), Machine: testbed.ThisMachine(), Protocol: "HTTP/2", ExternalEtcd: o.ExternalEtcd, Definitions: &o.Data,
		Plan: load.Plan{Duration: o.duration, Warmup: 1, Timeout: o.Plan.Timeout},
	}
	err := o.EachReadPath(ctx, testbed.NewProgress(to.Err), func(f *crd.Fixture) crd.Measurement {
		return &bench{Fixture: f, opts: o, report: report, result: &serverReport{Name: f.ReadPath}}
	})
	if len(report.Servers) == 0 {
		return err
	}
	report.addNotes()
	return cmp.Or(err, testbed.Print(report, to.Out, o.Output))
}
