package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/fill"
)

// crdSeed is that of all definitions that are filled in.
const crdSeed = 1

// crdData is the data of "bench crd" and "bench discovery".
type crdData struct {
	CRDs       int `json:"crds"`
	Groups     int `json:"groups"`
	Properties int `json:"properties"`
	Objects    int `json:"objects"`
}

func (d crdData) String() string {
	text := fmt.Sprintf("%d definitions of %d properties in %d groups", d.CRDs, d.Properties, d.Groups)
	if d.Objects > 0 {
		text += fmt.Sprintf(", %d custom objects", d.Objects)
	}
	return text
}

func (d crdData) shape() fill.Shape {
	return fill.Shape{Seed: crdSeed, CRDs: d.CRDs, Groups: d.Groups, Properties: d.Properties, Objects: d.Objects}
}

// crdPlan is how the measurements are made.
type crdPlan struct {
	Workers int           `json:"workers"`      // requests in flight that install and delete definitions
	Samples int           `json:"samples"`      // kinds that are asked for, and as many that are written to
	Rest    time.Duration `json:"restNanos"`    // before memory is read
	Timeout time.Duration `json:"timeoutNanos"` // of one step
}

// crdOptions are the flags that both commands have.
type crdOptions struct {
	compare bool
	testbedOptions
	data   crdData
	plan   crdPlan
	output string
	from   string
}

func (o *crdOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.compare, "compare", false, "measure both of --read-paths in turn, and compare them; without it only the first")
	o.addServerFlags(f, "")
	f.IntVar(&o.data.CRDs, "crds", 300, "custom resource definitions to install")
	f.IntVar(&o.data.Groups, "groups", 60, "API groups to spread them over")
	f.IntVar(&o.data.Properties, "properties", fill.DefaultProperties, "properties in the schema of each, nested ones counted")
	f.IntVar(&o.data.Objects, "objects", 0, "custom objects to create, spread over all definitions")
	f.IntVar(&o.plan.Workers, "workers", 16, "requests in flight that install and delete definitions")
	f.IntVar(&o.plan.Samples, "samples", 100, "kinds that are asked for, and other ones that are written to; at most half of all")
	f.DurationVar(&o.plan.Rest, "rest", 30*time.Second, "how long a server is left alone before its memory is read; until then it must have become idle")
	f.DurationVar(&o.plan.Timeout, "timeout", time.Hour, "give a step up after this time")
	f.StringVarP(&o.output, "output", "o", "table", "one of "+strings.Join(outputs, ", "))
	f.StringVar(&o.from, "from", "", "print the report in this file, as -o json wrote it, and measure nothing")
}

// validate checks everything that can be checked before starting anything.
func (o *crdOptions) validate() error {
	if !slices.Contains(outputs, o.output) {
		return fmt.Errorf("-o %s: choose one of %s", o.output, strings.Join(outputs, ", "))
	}
	for _, n := range []struct {
		flag         string
		value, least int
	}{
		{"crds", o.data.CRDs, 2}, {"groups", o.data.Groups, 1}, {"objects", o.data.Objects, 0},
		{"workers", o.plan.Workers, 1}, {"samples", o.plan.Samples, 1},
	} {
		if n.value < n.least {
			return fmt.Errorf("--%s=%d: must be at least %d", n.flag, n.value, n.least)
		}
	}
	for _, d := range []struct {
		flag         string
		value, least time.Duration
	}{
		{"rest", o.plan.Rest, 0}, {"timeout", o.plan.Timeout, time.Second}, {"ready-timeout", o.readyTimeout, time.Second},
	} {
		if d.value < d.least {
			return fmt.Errorf("--%s=%s: must be at least %s", d.flag, d.value, d.least)
		}
	}
	if _, err := fill.NewGenerator(o.data.shape()); err != nil {
		return err
	}
	return o.testbedOptions.validate()
}

// paths are the read paths to measure.
func (o *crdOptions) paths() []string {
	if o.compare {
		return o.readPaths
	}
	return o.readPaths[:1]
}

// sampled are the definitions that are asked for, and other ones that are
// written to and nothing else: both spread over all.
func (o *crdOptions) sampled() (asked, written []int) {
	samples := min(o.plan.Samples, o.data.CRDs/2)
	for i := range samples {
		first := i * o.data.CRDs / samples
		asked, written = append(asked, first), append(written, first+1)
	}
	return asked, written
}
