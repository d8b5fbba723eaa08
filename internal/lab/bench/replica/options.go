package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// plan says how much load the setups get.
type plan struct {
	Objects  int           `json:"objects"` // of each resource
	Rate     float64       `json:"writesPerSecond"`
	Duration time.Duration `json:"durationNanos"` // of the measured writes
	Warmup   time.Duration `json:"warmupNanos"`   // of the writes before those
	Settle   time.Duration `json:"settleNanos"`   // pause between two steps
	Timeout  time.Duration `json:"timeoutNanos"`  // for one setup
}

// writeCount returns the number of writes within d.
func (p plan) writeCount(d time.Duration) int { return testbed.EventsIn(d, p.Rate) }

// options are the flags of "bench replica" and "bench tree".
type options struct {
	testbed.Options
	informers []int
	setups    []string
	// fanout is the number of replicas of each server of a tree. It is 0 in "bench replica".
	fanout      int
	replicaArgs []string
	plan        plan
	output      string
	from        string
}

// addFlags adds the flags of "bench replica".
func (o *options) addFlags(f *pflag.FlagSet) {
	o.addCommonFlags(f, []int{200, 2000}, 50)
	f.StringSliceVar(&o.setups, "setups", setups(), "where informers read")
}

// addCommonFlags adds the flags that both commands have.
func (o *options) addCommonFlags(f *pflag.FlagSet, informers []int, rate float64) {
	f.StringVar(&o.Stock, "kube-apiserver", "", "kube-apiserver to run as the upstream (default: millrace with the stock read path)")
	o.AddProcessFlags(f, "")
	f.IntSliceVar(&o.informers, "informers", informers, "numbers of informers, of all ten resources together")
	f.StringArrayVar(&o.replicaArgs, "replica-arg", nil, "one more argument for every replica; may be repeated")
	f.IntVar(&o.plan.Objects, "objects", 50, "objects of each resource")
	f.Float64Var(&o.plan.Rate, "rate", rate, "writes per second, to all resources round-robin")
	f.DurationVar(&o.plan.Duration, "duration", 20*time.Second, "how long to write for each measurement")
	f.DurationVar(&o.plan.Warmup, "warmup", 2*time.Second, "how long to write before measuring")
	f.DurationVar(&o.plan.Settle, "settle", time.Second, "pause between two steps")
	f.DurationVar(&o.plan.Timeout, "timeout", 5*time.Minute, "give a setup up after this time")
}

// validate checks the flags.
func (o *options) validate() error {
	if err := testbed.CheckMinimums([]testbed.Minimum[time.Duration]{
		{Flag: "duration", Value: o.plan.Duration, Min: time.Millisecond}, {Flag: "warmup", Value: o.plan.Warmup, Min: 0},
		{Flag: "settle", Value: o.plan.Settle, Min: time.Millisecond}, {Flag: "timeout", Value: o.plan.Timeout, Min: time.Second},
		{Flag: "ready-timeout", Value: o.ReadyTimeout, Min: time.Second},
	}); err != nil {
		return err
	}
	resources := len(watchedResources())
	for _, n := range o.informers {
		if n < resources || n%resources != 0 {
			return fmt.Errorf("--informers=%d: give a multiple of %d, since each client has an informer of each resource", n, resources)
		}
		if needed, limit := n/resources+otherFiles, testbed.FileLimit(); needed > limit {
			return fmt.Errorf("%d open files are needed and %d allowed: raise ulimit -n", needed, limit)
		}
	}
	for _, s := range o.setups {
		if o.fanout == 0 && !slices.Contains(setups(), s) {
			return fmt.Errorf("--setups=%s: choose among %s", s, strings.Join(setups(), ", "))
		}
	}
	switch {
	case len(o.informers) == 0 || len(o.setups) == 0:
		return errors.New("--informers and --setups: give at least one value in each")
	case o.plan.Objects < 1:
		return fmt.Errorf("--objects=%d: must be at least 1", o.plan.Objects)
	case o.plan.Rate <= 0 || o.plan.Rate > 10_000:
		return fmt.Errorf("--rate=%g: must be above 0, and at most 10000", o.plan.Rate)
	}
	return nil
}

// otherFiles is about the number of files that this process has open, besides the fleet's connections.
const otherFiles = 100

// readPath returns the read path of a setup's upstream.
func (o *options) readPath(setup string) string {
	switch {
	case setup == setupServe:
		return testbed.ReadPathMillrace
	case o.Stock != "":
		return testbed.ReadPathStock
	}
	return testbed.ReadPathKubernetes
}

// tierArgs returns the arguments of a setup's replicas. A replica that is fed by etcd has all
// resources.
func (o *options) tierArgs(setup string) []string {
	if setup == setupReplicaEtcd {
		return o.replicaArgs
	}
	return append([]string{"--follow=" + followedResources()}, o.replicaArgs...)
}

// tiers returns the numbers of replicas of a setup by depth, starting with the replicas of the
// upstream.
func (o *options) tiers(setup string) (numbers []int) {
	if setup == setupReplicaAPI || setup == setupReplicaEtcd {
		return []int{1}
	}
	for n := o.fanout; len(numbers) < parseDepth(setup); n *= o.fanout {
		numbers = append(numbers, n)
	}
	return numbers
}

// baseline returns the setup and the number of informers with which others are compared. In it, as
// many informers read at the upstream as its replicas otherwise have.
func (o *options) baseline() (setup string, informers int) {
	if o.fanout > 0 {
		return depthSetup(0), o.fanout * len(watchedResources())
	}
	return setupDirect, len(watchedResources())
}
