package serve

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/memory"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// ReadPath names the server of reads.
type ReadPath string

const (
	// ReadPathMillrace reads from the byte cache; Kubernetes' watch cache is off.
	ReadPathMillrace ReadPath = "millrace"
	// ReadPathKubernetes is the stock server with its own watch cache.
	ReadPathKubernetes ReadPath = "kubernetes"
)

// Options of `millrace serve`: kube-apiserver's and a few more. NewOptions makes
// them; the zero value is not usable.
type Options struct {
	Kube *kube.Options
	// DataDir holds etcd's data, certificates, keys and kubeconfigs, unless other
	// flags name them.
	DataDir string
	// ReadPath is a ReadPath, as a flag.
	ReadPath string
	// WireCacheSize bounds the encoded bytes that are kept for the next reader.
	WireCacheSize resource.QuantityValue
	// HistoryWindow is how long changes are kept for watches and pages.
	HistoryWindow time.Duration
	// WatchCompression says which watches are compressed for clients that accept gzip.
	WatchCompression read.WatchCompression
	// Transcode sends objects as they are stored where that is proven to be the same.
	Transcode bool
	// EncodeAhead encodes what many clients list before they ask. Measurements of the first
	// request turn it off.
	EncodeAhead bool
	// PaceRelists is the percentage of a program's clients that may list anew within
	// a minute when many of them do so together. 0 bounds nothing.
	PaceRelists float64
	// WatchSLO says how long an event of a watch may take.
	WatchSLO string
	// WatchProbe is the period of the probe. 0 means that there is none.
	WatchProbe time.Duration
	// CacheCheckInterval is how often caches are checked. 0 checks nothing.
	CacheCheckInterval time.Duration
	// ServerLeases has servers over one etcd know each other.
	ServerLeases bool
	// RebalanceAbove is how many percent more watches than its share a server may have. 0
	// is any number.
	RebalanceAbove int
	// TimerSlack is how late the kernel may wake the process for a timer. It concerns
	// the whole process, so the caller sets it before Run. 0 leaves it as it is.
	TimerSlack time.Duration
	// Cache and CompiledBytes are changed only by tests. They alter costs and no
	// answer.
	Cache cache.Config
	// CompiledBytes bounds the compiled schemas of custom resources. 0 means
	// memory.Shares' default.
	CompiledBytes int64

	// flags are set by AddFlags.
	flags *pflag.FlagSet
	// command is the name of the command, for advice.
	command string
}

// NewOptions makes options with their defaults. That of the wire cache depends on
// the machine's memory.
func NewOptions() *Options {
	return &Options{
		Kube:          kube.NewOptions(),
		DataDir:       datadir.DefaultPath,
		ReadPath:      string(ReadPathMillrace),
		WireCacheSize: resource.QuantityValue{Quantity: *resource.NewQuantity(memory.Divide(memory.Available()).WireCache, resource.BinarySI)},
		HistoryWindow: 5 * time.Minute,
		Transcode:     true,
		EncodeAhead:   true,

		CacheCheckInterval: 10 * time.Second,
		ServerLeases:       true,

		WatchCompression: read.CompressWatchLists,
		WatchSLO:         "1s",
		TimerSlack:       2 * time.Millisecond,
		command:          "serve",
	}
}

// AddFlags adds all flags to those of a command and returns them by section.
func (o *Options) AddFlags(fs *pflag.FlagSet) cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	own := sections.FlagSet("millrace")
	own.StringVar(&o.DataDir, "data-dir", o.DataDir, "Directory for the embedded etcd, certificates, keys and kubeconfigs that are not given by other flags.")
	own.StringVar(&o.ReadPath, "read-path", o.ReadPath, "Who answers GET, LIST and WATCH: \"millrace\" (the byte cache) or \"kubernetes\" (the stock server with its watch cache).")
	o.addReadFlags(own)
	o.addSLOFlags(own)
	o.addServerFlags(own)
	own.Int64Var(&o.CompiledBytes, "compiled-schemas-bytes", 0, "Most memory of what is compiled out of the schemas of custom resources, by an estimate.")
	_ = own.MarkHidden("compiled-schemas-bytes") // it was added above
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

// addReadFlags adds the flags of the cache and of what is read from it.
func (o *Options) addReadFlags(own *pflag.FlagSet) {
	own.Var(&o.WireCacheSize, "wire-cache-size", "Most bytes of encoded objects to keep for the next reader, over all resources, such as 512Mi. The default is a sixteenth of the memory of the machine or cgroup, at most 320Mi.")
	own.DurationVar(&o.HistoryWindow, "history-window", o.HistoryWindow, "How long changes are kept in memory: a watch or a page of a list that is older is told to begin anew, or asked of etcd. A resource's changes take 64Mi at most. The last 100 of each resource are kept however old they are, in 8Mi over all resources.")
	own.Var(&o.WatchCompression, "watch-compression", "Which watches are compressed for clients that accept gzip: \"watch-lists\", and with them watches whose request has the header "+read.CompressWatchHeader+"; \"requested\", only watches with this header, as \"watch-lists\" without the feature gate WatchListCompression; \"all\", though some clients then see an event only when the next one comes; or \"none\".")
	own.BoolVar(&o.Transcode, "transcode", o.Transcode, "Turn stored objects into JSON and protobuf without decoding them, where the result is proven to be what Kubernetes' encoder writes. Each new combination of fields, and one in 128 objects, is encoded both ways and compared.")
	own.Float64Var(&o.PaceRelists, "pace-relists", 0, "How many percent of the clients of one program may list all of a resource within a minute when many of them begin anew together, such as 10; ten clients may at least. The others get 429 and a Retry-After, each another; administrators and the control plane never do. 0 holds nobody back.")
	own.DurationVar(&o.TimerSlack, "timer-slack", o.TimerSlack, "How late the kernel may wake this process for a timer, on Linux: it spares a tenth to a third of the CPU of watch events and writes. 0 leaves it as it is, 50 µs by default. The read path \"kubernetes\" is left as it is.")
	own.BoolVar(&o.EncodeAhead, "encode-ahead", o.EncodeAhead, "Encode what many clients list before they ask.")
	own.IntVar(&o.Cache.LeafObjects, "leaf-objects", 0, "How many objects are encoded and compressed together.")
	own.IntVar(&o.Cache.IndexMinScan, "index-from", 0, "Size of a scan that is worth an index.")
	own.IntVar(&o.Cache.HistoryEvents, "history-events", 0, "How many of a resource's last changes are kept however old they are.")
	for _, name := range []string{"encode-ahead", "leaf-objects", "index-from", "history-events"} {
		_ = own.MarkHidden(name) // it was added above
	}
}

const (
	// maxSlack is far below every timeout of the server.
	maxSlack = 50 * time.Millisecond
	// maxPace lets all clients list within six seconds.
	maxPace = 1000
)

// validate checks our own flags. Kubernetes checks its own.
func (o *Options) validate() error {
	switch ReadPath(o.ReadPath) {
	case ReadPathMillrace, ReadPathKubernetes:
	default:
		return fmt.Errorf("--read-path=%s is unknown: give %q or %q", o.ReadPath, ReadPathMillrace, ReadPathKubernetes)
	}
	if port := o.Kube.SecurePort(); port < 1 || port > 65535 {
		return fmt.Errorf("--secure-port=%d is no port to serve on: give one from 1 to 65535", port)
	}
	return o.validateShared()
}

// validateShared checks the flags that serve and replica have in common.
func (o *Options) validateShared() error {
	return cmp.Or(o.validateServing(), o.validateReads(), o.validateCacheChecks(), o.validateSLO())
}

// validateReads checks the flags of addReadFlags.
func (o *Options) validateReads() error {
	if o.WireCacheSize.Sign() < 0 {
		return fmt.Errorf("--wire-cache-size=%s is negative: give 0 to keep nothing", o.WireCacheSize.String())
	}
	if o.HistoryWindow <= 0 {
		return fmt.Errorf("--history-window=%v is not positive: give a duration such as 5m", o.HistoryWindow)
	}
	if o.PaceRelists < 0 || o.PaceRelists > maxPace {
		return fmt.Errorf("--pace-relists=%v is no percentage: give one from 0 (off) to %d", o.PaceRelists, maxPace)
	}
	if o.TimerSlack < 0 || o.TimerSlack > maxSlack {
		return fmt.Errorf("--timer-slack=%v is out of range: give one from 0 (leave it) to %v", o.TimerSlack, maxSlack)
	}
	if o.Cache.LeafObjects < 0 || o.Cache.LeafObjects == 1 || o.Cache.IndexMinScan < 0 {
		return errors.New("--leaf-objects and --index-from must be 0 or more, and leaves hold 2 objects at least")
	}
	return nil
}

// watches returns the options of watches.
func (o *Options) watches() tiermount.WatchOptions {
	return tiermount.WatchOptions{MinTimeout: o.Kube.MinRequestTimeout(), DrainTime: o.drainTime(), Compression: o.WatchCompression}
}

// newProofs returns what transcoders share, nil if nothing is transcoded.
func (o *Options) newProofs(logger *slog.Logger) *transcode.Proofs {
	if !o.Transcode {
		return nil
	}
	return transcode.NewProofs(transcode.Config{Logger: logger})
}

// memoryShares returns the shares of so many bytes, as the flags change them.
func (o *Options) memoryShares(total int64) memory.Shares {
	shares := memory.Divide(total)
	shares.WireCache = o.WireCacheSize.Value()
	if o.CompiledBytes != 0 {
		shares.SetCompiledSchemas(o.CompiledBytes)
	}
	if o.Cache.HistoryBytes != 0 {
		shares.History = o.Cache.HistoryBytes
	}
	return shares
}

// isSet reports whether the user set a flag.
func (o *Options) isSet(name string) bool {
	f := o.flags.Lookup(name)
	return f != nil && f.Changed
}

// setDefault sets a flag unless the user did.
func (o *Options) setDefault(name, value string) error {
	if o.isSet(name) {
		return nil
	}
	if err := o.flags.Set(name, value); err != nil {
		return fmt.Errorf("set --%s=%s: %w", name, value, err)
	}
	return nil
}
