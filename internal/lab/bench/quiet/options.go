package quiet

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// plan says how many objects there are, and how much load each front gets.
type plan struct {
	Namespaces int `json:"namespaces"`
	Accounts   int `json:"serviceAccounts"`
	ConfigMaps int `json:"configMaps"` // which are written
	// WriteRates are the rates of writes while one client reads, in writes per second. 0: no writes.
	WriteRates []float64 `json:"writeRates"`
	Requests   int       `json:"requests"` // of each read at each front, by one client
	// Pause is the time before each request.
	Pause time.Duration `json:"pauseNanos"`
	// Pollers is the number of clients that list namespaces. As many clients get one namespace.
	Pollers       int           `json:"pollers"`
	Every         time.Duration `json:"everyNanos"`    // between the requests of a poller
	PollWriteRate float64       `json:"pollWriteRate"` // writes per second, while pollers read
	Duration      time.Duration `json:"durationNanos"` // of the pollers of a front
	Warmup        time.Duration `json:"warmupNanos"`   // of reads before the measured ones
	Settle        time.Duration `json:"settleNanos"`   // pause before measuring
	Timeout       time.Duration `json:"timeoutNanos"`  // for one measurement
}

// options are the flags of "bench quiet".
type options struct {
	testbed.Options
	plan         plan
	output, from string
}

// addFlags adds the flags of "bench quiet", except the flags of testbed.Subcommand.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Stock, "kube-apiserver", "", "kube-apiserver to run as the upstream (default: millrace with the stock read path)")
	o.AddProcessFlags(f, "")
	f.IntVar(&o.plan.Namespaces, "namespaces", 100, "namespaces to create")
	f.IntVar(&o.plan.Accounts, "accounts", 2000, "service accounts to create")
	f.IntVar(&o.plan.ConfigMaps, "config-maps", 100, "config maps to create, and to write round-robin")
	f.Float64SliceVar(&o.plan.WriteRates, "write-rate", []float64{0, 50, 500}, "writes per second while one client reads")
	f.IntVar(&o.plan.Requests, "requests", 200, "requests of each kind at each front, by one client")
	f.DurationVar(&o.plan.Pause, "pause", 10*time.Millisecond, "pause of that client before each request")
	f.IntVar(&o.plan.Pollers, "pollers", 1000, "clients that list the namespaces; as many get one namespace; 0: no pollers")
	f.DurationVar(&o.plan.Every, "every", time.Second, "time between the requests of a poller")
	f.Float64Var(&o.plan.PollWriteRate, "poll-write-rate", 50, "writes per second while pollers read")
	f.DurationVar(&o.plan.Duration, "duration", 10*time.Second, "how long to measure the pollers of each front")
	f.DurationVar(&o.plan.Warmup, "warmup", 3*time.Second, "how long to read before measuring")
	f.DurationVar(&o.plan.Settle, "settle", time.Second, "pause before each measurement")
	f.DurationVar(&o.plan.Timeout, "timeout", 5*time.Minute, "give a measurement up after this time")
}

// maxRate bounds the rates of writes, in writes per second.
const maxRate = 10_000

// validate checks the flags.
func (o *options) validate() error {
	for _, rate := range append(o.plan.WriteRates, o.plan.PollWriteRate) {
		if rate < 0 || rate > maxRate {
			return fmt.Errorf("--write-rate and --poll-write-rate: %g is not from 0 to %d", rate, maxRate)
		}
	}
	return errors.Join(testbed.CheckMinimums([]testbed.Minimum[int]{
		{Flag: "namespaces", Value: o.plan.Namespaces, Min: 1}, {Flag: "accounts", Value: o.plan.Accounts, Min: 1},
		{Flag: "config-maps", Value: o.plan.ConfigMaps, Min: 1}, {Flag: "requests", Value: o.plan.Requests, Min: 1},
		{Flag: "pollers", Value: o.plan.Pollers, Min: 0},
	}), testbed.CheckMinimums([]testbed.Minimum[time.Duration]{
		{Flag: "every", Value: o.plan.Every, Min: time.Millisecond}, {Flag: "duration", Value: o.plan.Duration, Min: time.Millisecond},
		{Flag: "pause", Value: o.plan.Pause, Min: 0}, {Flag: "warmup", Value: o.plan.Warmup, Min: 0},
		{Flag: "settle", Value: o.plan.Settle, Min: time.Millisecond},
		{Flag: "timeout", Value: o.plan.Timeout, Min: time.Second}, {Flag: "ready-timeout", Value: o.ReadyTimeout, Min: time.Second},
	}))
}

// readPath returns the read path of the upstream.
func (o *options) readPath() string {
	if o.Stock != "" {
		return testbed.ReadPathStock
	}
	return testbed.ReadPathKubernetes
}
