package serve

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/conn/datadir"
)

// ReadPath names the server of reads.
type ReadPath string

const (
	// ReadPathMillrace reads from the byte cache; Kubernetes' watch cache is off.
	ReadPathMillrace ReadPath = "millrace"
	// ReadPathKubernetes is the stock server with its own watch cache.
	ReadPathKubernetes ReadPath = "kubernetes"
)

// minProbePeriod is the shortest period of the probe, which keeps it from being a load.
const minProbePeriod = 100 * time.Millisecond

// Options are the options of `millrace serve`: kube-apiserver's and a few more.
// NewOptions makes them; the zero value is not usable.
type Options struct {
	*program.Options
	// DataDir holds etcd's data, certificates, keys and kubeconfigs, unless other
	// flags name them.
	DataDir string
	// ReadPath is the value of --read-path. validate checks it.
	ReadPath string
	// WatchProbe is how often the server writes its own Lease and watches it (see probe). 0
	// disables that.
	WatchProbe time.Duration
	// ServerLeases makes servers that share one etcd discover each other through Leases.
	ServerLeases bool
	// RebalanceAbove is how many percent more watches than its share a server may have. 0
	// does not limit them.
	RebalanceAbove int

	// flags are set by AddFlags.
	flags *pflag.FlagSet
}

// NewOptions makes options with their defaults. Only one command that uses shared may run in a
// process, because each changes it.
func NewOptions(shared *program.Options) *Options {
	return &Options{Options: shared, DataDir: datadir.DefaultPath, ReadPath: string(ReadPathMillrace), ServerLeases: true}
}

// AddFlags adds all flags to the flags of a command, and returns them by section.
func (o *Options) AddFlags(fs *pflag.FlagSet) cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	own := sections.FlagSet("millrace")
	own.StringVar(&o.DataDir, "data-dir", o.DataDir, "Directory for the embedded etcd, certificates, keys and kubeconfigs that are not given by other flags.")
	own.StringVar(&o.ReadPath, "read-path", o.ReadPath, "Which server answers GET, LIST and WATCH: \"millrace\" (the byte cache) or \"kubernetes\" (the stock server with its watch cache).")
	o.Options.AddFlags(own)
	own.DurationVar(&o.WatchProbe, "watch-probe", o.WatchProbe, "How often this server writes a Lease of its own in kube-system and watches it through its own listener, to measure the time from write to watch event. 0 disables that.")
	own.BoolVar(&o.ServerLeases, "server-leases", o.ServerLeases, "Write a Lease in kube-system in each --cache-check-interval, by which the servers over one etcd compare their caches and share their watches. The default is false with the embedded etcd.")
	own.IntVar(&o.RebalanceAbove, "rebalance-watches", o.RebalanceAbove, "How many percent more watches than its share a server may have, such as 10, before it asks some clients to connect again through the load balancer. 0 never asks. Needs --server-leases.")
	own.Int64Var(&o.CompiledBytes, "compiled-schemas-bytes", 0, "Upper bound, estimated, of the memory for compiled schemas of custom resources.")
	_ = own.MarkHidden("compiled-schemas-bytes") // fails only for a flag that is not defined
	kubernetes := o.Kube.Flags()
	for _, name := range kubernetes.Order {
		sections.FlagSet(name).AddFlagSet(kubernetes.FlagSet(name))
	}
	for _, section := range sections.FlagSets {
		fs.AddFlagSet(section)
	}
	o.flags = fs
	return sections
}

// validate checks our own flags. Kubernetes checks most of its own.
func (o *Options) validate() error {
	switch ReadPath(o.ReadPath) {
	case ReadPathMillrace, ReadPathKubernetes:
	default:
		return fmt.Errorf("--read-path=%s is unknown: give %q or %q", o.ReadPath, ReadPathMillrace, ReadPathKubernetes)
	}
	if o.RebalanceAbove < 0 {
		return fmt.Errorf("--rebalance-watches=%d is negative: give 0 to leave watches where they are", o.RebalanceAbove)
	}
	if o.WatchProbe < 0 || o.WatchProbe > 0 && o.WatchProbe < minProbePeriod {
		return fmt.Errorf("--watch-probe=%v is too often: give 0 to have none, or at least %v", o.WatchProbe, minProbePeriod)
	}
	return o.Validate()
}
