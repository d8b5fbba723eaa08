package list

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

// options are the flags of "bench list".
type options struct {
	compare bool
	cold    bool
	floor   bool
	// coldReaders is the number of clients of --cold that send the first request at once. 0
	// stands for one client, whose second request is measured too.
	coldReaders int
	// coldAfter is the time from the readiness of a server to the first request of --cold. With
	// 0 the server encodes nothing ahead, and without coldReaders it must be idle first.
	coldAfter time.Duration
	testbed.Options
	fill testbed.FillConfig

	workloads        []string
	resourceVersions []string
	plan             load.Plan
	memoryLists      int
	rssLists         int
	rest             time.Duration
	stall            time.Duration
	http1            bool
	output           string
	from             string

	chosen choice // set by validate from workloads and memoryLists
}

// listsByDefault is the default of --list-memory. choose replaces it: by 32 if list-memory or a
// workload is chosen, else by 0.
const listsByDefault = -1

// addFlags adds the flags of "bench list", except the flags of testbed.Subcommand.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.compare, "compare", false, "start both read paths one after the other over the same data, and the floor, and compare them")
	o.AddServerFlags(f)
	f.BoolVar(&o.floor, "floor", true, "measure the floor too")
	f.BoolVar(&o.cold, "cold", false, "measure the cold (first) and the warm (second) request of each workload, on a server "+
		"that was started for it and has encoded nothing ahead")
	f.DurationVar(&o.coldAfter, "cold-after", 0, "with --cold: let the server encode ahead, and send the first request this "+
		"long after it is ready")
	f.IntVar(&o.coldReaders, "cold-readers", 0, "with --cold: send each workload over this many connections at once, as "+
		"soon as the server is ready, and measure its memory")
	f.IntVar(&o.fill.Nodes, "nodes", 1000, "nodes to fill in")
	f.IntVar(&o.fill.Pods, "pods", 10000, "pods to fill in; 0 with --at: fill nothing in, and measure the objects that the server has")
	f.StringVar(&o.fill.PodSize, "pod-size", "4KB", "size of a pod as JSON")
	f.BoolVar(&o.fill.Older, "older", false, "with --external-etcd: fill in pods that an older version has stored, without "+
		"a field that servers add when they read them")
	f.BoolVar(&o.fill.Services, "services", false, "fill in the Deployment, Service and EndpointSlice of each 20 pods too")
	f.IntVar(&o.fill.Secrets, "secrets", 400, "with "+listSlowReaders+": secrets to fill in")
	f.StringVar(&o.fill.SecretSize, "secret-size", "1MB", "with "+listSlowReaders+": size of a secret as JSON")
	f.IntVar(&o.fill.CustomObjects, "custom-objects", 0,
		"custom objects of one definition to fill in, which the workload "+customWorkload+" lists")
	f.IntVar(&o.fill.Namespaces, "namespaces", 1, "namespaces to spread pods or secrets over")

	f.StringSliceVar(&o.workloads, "workloads", nil, "what to run; \"help\" lists all, with a mark at the default workloads")
	f.StringSliceVar(&o.resourceVersions, "resource-version", []string{"0"},
		"resourceVersion of the requests: 0, a number, \"unset\", or several of them")
	f.IntVar(&o.plan.Concurrency, "concurrency", 0, "clients, each with its own connection (default each workload's own number)")
	f.DurationVar(&o.plan.Duration, "duration", 5*time.Second, "how long to measure each workload")
	f.IntVar(&o.plan.Requests, "requests", 0, "measure this many requests of each workload instead of --duration")
	f.DurationVar(&o.plan.Every, "every", 0, "time between the starts of a client's requests (0: each follows the request before)")
	f.IntVar(&o.plan.Warmup, "warmup", 2, "requests of each workload before measuring")
	f.DurationVar(&o.plan.Settle, "settle", time.Second, "pause before measuring")
	f.DurationVar(&o.plan.Timeout, "timeout", 15*time.Minute, "give a workload up after this time")
	f.IntVar(&o.memoryLists, "list-memory", listsByDefault,
		"LISTs that list-memory opens at once, 0 for none (default 32 if named in --workloads, or with others)")
	f.IntVar(&o.rssLists, "list-rss", 10, "LISTs of each encoding that list-rss sends")
	f.DurationVar(&o.rest, "rest", 30*time.Second, "how long list-rss and list-stalled leave a server alone before they "+
		"read its memory; until then it must have become idle")
	f.DurationVar(&o.stall, "stall", 30*time.Second, "how long a slow reader of list-stalled takes for a LIST")
	f.BoolVar(&o.http1, "http1", false, "use HTTP/1.1 instead of HTTP/2")
}

// validate checks what can be checked before a server runs, and sets defaults that depend
// on other flags. isSet reports whether the user has given a flag.
func (o *options) validate(isSet func(flag string) bool) error {
	for _, version := range o.resourceVersions {
		if _, err := strconv.ParseUint(version, 10, 64); err != nil && version != rvUnset {
			return fmt.Errorf("--resource-version=%s: choose a number or %q", version, rvUnset)
		}
	}
	if isSet("duration") && isSet("requests") {
		return errors.New("choose one of --duration and --requests")
	}
	if err := o.validateNumbers(); err != nil {
		return err
	}
	if err := o.choose(); err != nil {
		return err
	}
	if o.from != "" {
		return nil
	}
	return o.validateServers(isSet)
}

// choose sets chosen and memoryLists by workloads.
func (o *options) choose() (err error) {
	if o.chosen, err = choose(o.workloads); err != nil {
		return err
	}
	named := o.chosen.sections[listMemory]
	if o.memoryLists == listsByDefault {
		o.memoryLists = 0
		if named || len(o.chosen.specs) > 0 {
			o.memoryLists = 32
		}
	}
	o.chosen.sections[listMemory] = o.memoryLists > 0
	return nil
}

// validateNumbers checks the lower bounds of numbers and durations.
func (o *options) validateNumbers() error {
	if err := testbed.CheckMinimums([]testbed.Minimum[int]{
		{Flag: "nodes", Value: o.fill.Nodes, Min: 1}, {Flag: "pods", Value: o.fill.Pods, Min: 0},
		{Flag: "namespaces", Value: o.fill.Namespaces, Min: 1}, {Flag: "concurrency", Value: o.plan.Concurrency, Min: 0},
		{Flag: "requests", Value: o.plan.Requests, Min: 0},
		{Flag: "warmup", Value: o.plan.Warmup, Min: 1}, {Flag: "list-memory", Value: o.memoryLists, Min: listsByDefault},
		{Flag: "cold-readers", Value: o.coldReaders, Min: 0}, {Flag: "list-rss", Value: o.rssLists, Min: 1},
		{Flag: "secrets", Value: o.fill.Secrets, Min: 1}, {Flag: "custom-objects", Value: o.fill.CustomObjects, Min: 0},
	}); err != nil {
		return err
	}
	return testbed.CheckMinimums([]testbed.Minimum[time.Duration]{
		{Flag: "duration", Value: o.plan.Duration, Min: time.Millisecond}, {Flag: "settle", Value: o.plan.Settle, Min: 0},
		{Flag: "every", Value: o.plan.Every, Min: 0},
		{Flag: "rest", Value: o.rest, Min: 0}, {Flag: "cold-after", Value: o.coldAfter, Min: 0},
		{Flag: "stall", Value: o.stall, Min: time.Millisecond},
		{Flag: "timeout", Value: o.plan.Timeout, Min: time.Second}, {Flag: "ready-timeout", Value: o.ReadyTimeout, Min: time.Second},
	})
}

// validateServers checks the flags that say what runs and what is filled in. It also sets the
// options that follow from them, such as the arguments of servers.
func (o *options) validateServers(isSet func(string) bool) error {
	if err := o.Options.ValidateChoice(o.compare); err != nil {
		return err
	}
	if o.fill.Pods == 0 && o.At == "" {
		return errors.New("--pods=0 is for a server that has some: it needs --at")
	}
	if o.cold && o.At != "" {
		return errors.New("--cold starts servers, so it excludes --at")
	}
	if o.cold {
		o.setCold(isSet)
	} else if o.coldReaders > 0 || o.coldAfter > 0 {
		return errors.New("--cold-readers and --cold-after need --cold")
	}
	if o.coldReaders > 0 && o.coldAfter > 0 {
		return errors.New("choose one of --cold-readers and --cold-after")
	}
	for _, size := range []struct{ flag, value string }{{"pod-size", o.fill.PodSize}, {"secret-size", o.fill.SecretSize}} {
		if _, err := fill.ParseSize(size.value); err != nil {
			return fmt.Errorf("--%s=%s: %w", size.flag, size.value, err)
		}
	}
	if o.fill.Older && !o.ExternalEtcd {
		return errors.New("--older: such objects are written straight into etcd: add --external-etcd")
	}
	if o.fill.CustomObjects > 0 {
		s, err := customSpec(o.Seed())
		if err != nil {
			return err
		}
		o.chosen.specs = append(o.chosen.specs, s)
	}
	return o.chooseData(isSet)
}

// setCold sets the options that follow from --cold. It replaces --warmup and --requests in any case,
// and --concurrency and --list-memory unless the user has set them.
func (o *options) setCold(isSet func(string) bool) {
	o.plan.Warmup, o.plan.Requests = 1, 1
	if !isSet("concurrency") {
		o.plan.Concurrency = 1
	}
	if !isSet("list-memory") {
		o.memoryLists = 0
		o.chosen.sections[listMemory] = false
	}
	if o.coldAfter == 0 {
		o.AddServerArg("--encode-ahead=false")
	}
	if o.coldReaders > 0 { // no LIST may be cut off by the server's timeout
		o.AddCommonArg("--request-timeout=" + o.plan.Timeout.String())
	}
}

// chooseData removes from fill the objects that the chosen workloads and sections do not need.
// It returns an error for flags that have no effect, and for choices that need different data.
func (o *options) chooseData(isSet func(string) bool) error {
	stalled := o.chosen.sections[listSlowReaders]
	others := len(o.chosen.specs) > 0
	for _, s := range sections() {
		others = others || !s.needsOwnData && o.chosen.sections[s.name]
	}
	unused := []string{"secrets", "secret-size"}
	if stalled {
		unused = []string{"nodes", "pods", "pod-size", "services"}
	}
	for _, flag := range unused {
		if isSet(flag) {
			return fmt.Errorf("--%s: %s fills in secrets, all else nodes and pods", flag, listSlowReaders)
		}
	}
	if stalled && others {
		return fmt.Errorf("%s fills in data of its own: run it alone", listSlowReaders)
	}
	if stalled {
		o.fill.Nodes, o.fill.Pods = 0, 0
		o.fill.PodSize = ""
	} else {
		o.fill.Secrets = 0
		o.fill.SecretSize = ""
	}
	return nil
}
