package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/tool/render"
)

// plan says how much load the workloads get.
type plan struct {
	Duration time.Duration `json:"durationNanos"` // of the measured writes
	Warmup   time.Duration `json:"warmupNanos"`   // of the writes before those
	Settle   time.Duration `json:"settleNanos"`   // pause before writing
	Rest     time.Duration `json:"restNanos"`     // before the memory of an idle server is read
	Timeout  time.Duration `json:"timeoutNanos"`  // for one workload
	Scale    float64       `json:"scale"`         // multiplies the numbers of watchers
	// Turns is the number of times that each server was started and measured. It is 0 in reports
	// that are older than the flag, whose servers were measured once.
	Turns int `json:"turns"`
}

// eventCount returns the number of writes that a workload makes within d, at least 1.
func (p plan) eventCount(s eventWorkload, d time.Duration) int {
	return max(1, int(s.rate*d.Seconds()+0.5))
}

// options are the flags of "bench watch".
type options struct {
	compare bool
	testbed.Options
	podSize    string
	secrets    int
	secretSize string
	forms      []string
	informers  []int
	initial    []string

	workloads []string
	plan      plan
	output    string
	from      string

	chosen choice // set by validate from workloads, forms and scale
}

// maxInformers bounds the connections of a workload.
const maxInformers = 4096

// formats returns the values of --output, for there is no plot.
func formats() []string { return []string{render.Terminal, render.Wide, render.JSON, render.Markdown} }

// addFlags adds the flags of "bench watch", except the flags of testbed.Subcommand.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.compare, "compare", false, "start both read paths one after the other over the same data, and the floor, and compare them")
	o.AddServerFlags(f)
	f.StringVar(&o.podSize, "pod-size", "4KB", "size of a pod as JSON, for the workloads that write to pods")
	f.IntVar(&o.secrets, "secrets", 400, "with "+watchListGroup+": secrets to fill in")
	f.StringVar(&o.secretSize, "secret-size", "1MB", "with "+watchListGroup+": size of a secret as JSON")

	f.StringSliceVar(&o.forms, "forms", []string{informerForms()[0].name},
		watchListGroup+": each in these forms, among "+strings.Join(informerFormNames(), ", "))
	f.IntSliceVar(&o.informers, "informers", nil, "numbers of informers, each a workload, in place of the workloads of "+watchListGroup)
	f.StringSliceVar(&o.initial, "initial", []string{initialWatchList},
		"with --informers: how informers start, a workload for each: "+initialWatchList+", "+initialList)
	f.StringSliceVar(&o.workloads, "workloads", nil, "what to run; \"help\" lists all, with a mark at the default workloads")
	f.DurationVar(&o.plan.Duration, "duration", 10*time.Second, "how long to write for each workload")
	f.DurationVar(&o.plan.Warmup, "warmup", time.Second, "how long to write before measuring")
	f.DurationVar(&o.plan.Settle, "settle", time.Second, "pause between opening watches and writing")
	f.DurationVar(&o.plan.Rest, "rest", 12*time.Second,
		"how long "+watchListGroup+" leaves a server alone before it reads its memory; until then it must have become idle")
	f.DurationVar(&o.plan.Timeout, "timeout", 15*time.Minute, "give a workload up after this time")
	f.Float64Var(&o.plan.Scale, "scale", 1, "multiply the watchers and connections of all workloads by this")
	f.IntVar(&o.plan.Turns, "turns", 1, "how often the servers are started and measured, one after the other; the report "+
		"has the medians. "+watchListGroup+" has one turn")
}

// validate checks what can be checked before a server runs, and chooses the workloads.
func (o *options) validate() (err error) {
	if err := testbed.CheckMinimums([]testbed.Minimum[time.Duration]{
		{Flag: "duration", Value: o.plan.Duration, Min: time.Millisecond}, {Flag: "warmup", Value: o.plan.Warmup, Min: 0},
		{Flag: "settle", Value: o.plan.Settle, Min: 0},
		{Flag: "rest", Value: o.plan.Rest, Min: 0}, {Flag: "timeout", Value: o.plan.Timeout, Min: time.Second},
		{Flag: "ready-timeout", Value: o.ReadyTimeout, Min: time.Second},
	}); err != nil {
		return err
	}
	switch {
	case o.plan.Scale <= 0 || o.plan.Scale > 100:
		return fmt.Errorf("--scale=%g: must be above 0, and at most 100", o.plan.Scale)
	case o.plan.Turns < 1:
		return fmt.Errorf("--turns=%d: must be at least 1", o.plan.Turns)
	case o.secrets < 1:
		return fmt.Errorf("--secrets=%d: must be at least 1", o.secrets)
	}
	if o.chosen, err = choose(o.workloads); err != nil {
		return err
	}
	if err := o.chooseInformers(); err != nil {
		return err
	}
	if o.chosen.informers, err = expandForms(o.chosen.informers, o.forms); err != nil {
		return err
	}
	o.chosen = o.chosen.scaleAll(o.plan.Scale)
	if o.chosen.needsShards() {
		o.AddServerArg("--" + shardsFlag)
	}
	if needed, limit := o.chosen.files(), testbed.FileLimit(); needed > limit {
		return fmt.Errorf("%d open files are needed and %d allowed: raise ulimit -n, or lower --scale", needed, limit)
	}
	for _, size := range []struct{ flag, value string }{{"pod-size", o.podSize}, {"secret-size", o.secretSize}} {
		if _, err := fill.ParseSize(size.value); err != nil {
			return fmt.Errorf("--%s=%s: %w", size.flag, size.value, err)
		}
	}
	if o.from != "" {
		return nil
	}
	return o.Options.ValidateChoice(o.compare)
}

// chooseInformers replaces the workloads of informers by the workloads of --informers, if given.
func (o *options) chooseInformers() error {
	if len(o.informers) == 0 {
		return nil
	}
	for _, n := range o.informers {
		if n < 1 || n > maxInformers {
			return fmt.Errorf("--informers: %d is not from 1 to %d", n, maxInformers)
		}
	}
	for _, way := range o.initial {
		if way != initialWatchList && way != initialList {
			return fmt.Errorf("--initial=%s: choose among %s, %s", way, initialWatchList, initialList)
		}
	}
	o.chosen.informers = informerWorkloadsFor(o.informers, o.initial)
	return nil
}

// scaleAll multiplies the numbers of watchers and informers of all workloads by factor. It changes
// c's slices, and returns c.
func (c choice) scaleAll(factor float64) choice {
	for _, specs := range [][]eventWorkload{c.events, c.floor} {
		for i := range specs {
			specs[i] = specs[i].scale(factor)
		}
	}
	for i := range c.informers {
		c.informers[i].informers = max(1, int(float64(c.informers[i].informers)*factor+0.5))
	}
	return c
}

// files returns about the number of files that this process has open at the same time.
func (c choice) files() int {
	const others = 100
	largest := 0
	for _, s := range append(slices.Clone(c.events), c.floor...) {
		largest = max(largest, s.conns)
	}
	for _, s := range c.informers {
		largest = max(largest, s.informers)
	}
	return largest + others
}

// nodes returns the number of nodes with a pod that the workloads need.
func (c choice) nodes() int {
	largest := 0
	for _, s := range c.events {
		if s.writesPods() {
			largest = max(largest, s.objects())
		}
	}
	return largest
}
