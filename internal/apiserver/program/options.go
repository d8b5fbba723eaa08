package program

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/memory"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// Options are the options that `millrace serve` and `millrace replica` have in common.
// NewOptions makes them; the zero value is not usable. A command adds its own flags beside
// them, and calls SetFlags.
type Options struct {
	Kube *kube.Options
	// WireCacheSize bounds the encoded bytes that are kept for the next reader.
	WireCacheSize resource.QuantityValue
	// HistoryWindow is how long changes are kept for watches and pages.
	HistoryWindow time.Duration
	// WatchCompression says which watches are compressed for clients that accept gzip.
	WatchCompression read.WatchCompression
	// Transcode turns stored objects into JSON and protobuf without decoding them, where the
	// result is proven to be Kubernetes'.
	Transcode bool
	// EncodeAhead encodes what many clients list before they ask. Measurements of the first
	// request turn it off.
	EncodeAhead bool
	// RelistPercent is the percentage of the instances of one client program that may list
	// again within a minute when many list again together. It stands for ten instances at
	// least. 0 bounds nothing.
	RelistPercent float64
	// WatchSLO says how long an event of a watch may take, as slo.ParseObjectives reads it.
	WatchSLO string
	// CacheCheckInterval is how often caches are checked, and servers' Leases written. 0 does
	// neither.
	CacheCheckInterval time.Duration
	// TimerSlack is how late the kernel may wake the process for a timer. It concerns
	// the whole process, so the caller sets it before Run. 0 leaves it as it is.
	TimerSlack time.Duration
	// LogFile is the file that the log is written to. "" leaves the log on standard
	// error.
	LogFile string
	// Cache has the values of hidden flags, which tests set. They alter costs, and how old a
	// revision a watch may begin at.
	Cache cache.Config
	// CompiledBytes bounds the compiled schemas of custom resources. 0 means the default
	// of memory.Shares. A hidden flag of `millrace serve` sets it.
	CompiledBytes int64

	// flags are the flags of the command. SetFlags sets flags and command.
	flags *pflag.FlagSet
	// command is the name of the command, for advice.
	command string
}

// NewOptions makes options with their defaults. The default of the wire cache depends on
// memory.Available.
func NewOptions() *Options {
	return &Options{
		Kube:          kube.NewOptions(),
		WireCacheSize: resource.QuantityValue{Quantity: *resource.NewQuantity(memory.Divide(memory.Available()).WireCache, resource.BinarySI)},
		HistoryWindow: 5 * time.Minute,
		Transcode:     true,
		EncodeAhead:   true,

		CacheCheckInterval: 10 * time.Second,

		WatchCompression: read.CompressWatchLists,
		WatchSLO:         "1s",
		TimerSlack:       2 * time.Millisecond,
	}
}

// SetFlags sets the name of the command, and all of its flags with Kubernetes' flags among
// them. It must be called before the methods that read or set flags.
func (o *Options) SetFlags(command string, flags *pflag.FlagSet) { o.command, o.flags = command, flags }

// AddFlags adds the flags that fill the fields of o.
func (o *Options) AddFlags(own *pflag.FlagSet) {
	own.Var(&o.WireCacheSize, "wire-cache-size", "Most bytes of encoded objects to keep for the next reader, over all resources, such as 512Mi. The default is a sixteenth of the memory of the machine or cgroup, at most 320Mi.")
	own.DurationVar(&o.HistoryWindow, "history-window", o.HistoryWindow, "How long changes are kept in memory, in at most 64Mi for each resource. A watch from an older revision gets 410, and an older page of a list is read from etcd.")
	own.Var(&o.WatchCompression, "watch-compression", "Which watches are compressed for clients that accept gzip: \"watch-lists\" (also watches that ask by a header), \"requested\" (only watches that ask), \"all\" or \"none\". See docs/guarantees.md.")
	own.BoolVar(&o.Transcode, "transcode", o.Transcode, "Turn stored objects into JSON and protobuf without decoding them, where the result is proven to be what Kubernetes' encoder writes.")
	own.Float64Var(&o.RelistPercent, "pace-relists", 0, "Percentage of a client program's instances, and at least ten, that may list a resource in a minute when many list it again together. Others get 429 and a Retry-After of their own. 0 bounds nothing.")
	own.DurationVar(&o.TimerSlack, "timer-slack", o.TimerSlack, "How late the kernel may wake this process for a timer, on Linux. Waking later saves CPU. 0 keeps the kernel's setting. The read path \"kubernetes\" ignores this flag.")
	own.StringVar(&o.WatchSLO, "watch-slo", o.WatchSLO, "How long 99 of 100 events of watches may take from etcd to the client's connection, with exceptions by resource, such as 1s,pods=500ms,deployments.apps=2s.")
	own.DurationVar(&o.CacheCheckInterval, "cache-check-interval", o.CacheCheckInterval, "How often the objects in memory are checked, and how often --server-leases are written. At most 5m. 0 checks nothing. Objects that follow an API server are not checked. See docs/design/servers.md.")
	own.BoolVar(&o.EncodeAhead, "encode-ahead", o.EncodeAhead, "Encode what many clients list before they ask for it.")
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
	// minCacheCheck is the shortest interval of checks, so that they are no load.
	minCacheCheck = 500 * time.Millisecond
	// maxCacheCheck is the longest interval. A wrong cache is found within one interval, and a
	// server that is gone is forgotten after three.
	maxCacheCheck = 5 * time.Minute
)

// Validate checks the flags of AddFlags, and Kubernetes' flags about the certificate and the
// port of the server. Kubernetes checks its other flags.
func (o *Options) Validate() error {
	return cmp.Or(o.validatePort(), o.validateCertificate(), o.validateReads(), o.validateChecks())
}

func (o *Options) validatePort() error {
	if port := o.Kube.SecurePort(); port < 1 || port > 65535 {
		return fmt.Errorf("--secure-port=%d is not a port to serve on: give one from 1 to 65535", port)
	}
	return nil
}

func (o *Options) validateReads() error {
	if o.WireCacheSize.Sign() < 0 {
		return fmt.Errorf("--wire-cache-size=%s is negative: give 0 to keep nothing", o.WireCacheSize.String())
	}
	if o.HistoryWindow <= 0 {
		return fmt.Errorf("--history-window=%v is not positive: give a duration such as 5m", o.HistoryWindow)
	}
	if o.RelistPercent < 0 || o.RelistPercent > maxPace {
		return fmt.Errorf("--pace-relists=%v is not a percentage: give one from 0 (off) to %d", o.RelistPercent, maxPace)
	}
	if o.TimerSlack < 0 || o.TimerSlack > maxSlack {
		return fmt.Errorf("--timer-slack=%v is out of range: give one from 0 (leave it) to %v", o.TimerSlack, maxSlack)
	}
	if o.Cache.LeafObjects < 0 || o.Cache.LeafObjects == 1 || o.Cache.IndexMinScan < 0 {
		return errors.New("--leaf-objects and --index-from must be 0 or more, and leaves hold 2 objects at least")
	}
	return nil
}

// validateChecks checks the flags about what the server measures and compares by itself.
func (o *Options) validateChecks() error {
	if o.CacheCheckInterval < 0 || o.CacheCheckInterval > 0 && o.CacheCheckInterval < minCacheCheck {
		return fmt.Errorf("--cache-check-interval=%v is too short: give 0 to check nothing, or at least %v", o.CacheCheckInterval, minCacheCheck)
	}
	if o.CacheCheckInterval > maxCacheCheck {
		return fmt.Errorf("--cache-check-interval=%v is too long: give at most %v, or 0 to check nothing", o.CacheCheckInterval, maxCacheCheck)
	}
	if _, err := slo.ParseObjectives(o.WatchSLO); err != nil {
		return fmt.Errorf("--watch-slo: %w", err)
	}
	return nil
}

// drainShare is the part of the grace period for watches over which their ends are
// spread. The rest is for clients to read the end.
const drainShare = 0.8

// Watches returns the options of watches.
func (o *Options) Watches() tiermount.WatchOptions {
	grace, _ := o.flags.GetDuration("shutdown-watch-termination-grace-period")
	return tiermount.WatchOptions{MinTimeout: o.Kube.MinRequestTimeout(), DrainTime: time.Duration(float64(grace) * drainShare), Compression: o.WatchCompression}
}

// NewProofs returns the proofs that transcoders share. It returns nil if nothing is
// transcoded.
func (o *Options) NewProofs(logger *slog.Logger) *transcode.Proofs {
	if !o.Transcode {
		return nil
	}
	return transcode.NewProofs(transcode.Config{Logger: logger})
}

// MemoryShares divides total bytes into shares, some of which flags set.
func (o *Options) MemoryShares(total int64) memory.Shares {
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

// SetShutdownDefaults makes the server end watches when it is told to end, unless the user has
// set the flag. Kubernetes' default waits a minute for clients to end them, which they never do.
func (o *Options) SetShutdownDefaults() error {
	return o.SetDefault("shutdown-watch-termination-grace-period", "10s")
}

// IsSet reports whether one of the named flags was set, by the user or by SetDefault. So
// a caller that asks for the user's choice must ask before SetDefault.
func (o *Options) IsSet(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		f := o.flags.Lookup(name)
		return f != nil && f.Changed
	})
}

// SetDefault sets a flag that is not set. From then on IsSet is true for it.
func (o *Options) SetDefault(name, value string) error {
	if o.IsSet(name) {
		return nil
	}
	if err := o.flags.Set(name, value); err != nil {
		return fmt.Errorf("set --%s=%s: %w", name, value, err)
	}
	return nil
}

// SetDefaults calls SetDefault for pairs of a name and a value.
func (o *Options) SetDefaults(flags [][2]string) error {
	for _, f := range flags {
		if err := o.SetDefault(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// Value returns a flag's value as text, or the empty string if there is no such flag.
func (o *Options) Value(name string) string {
	if f := o.flags.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// IP returns the value of a flag that is an address. It returns nil if the flag has no
// value.
func (o *Options) IP(name string) net.IP {
	ip, _ := o.flags.GetIP(name)
	return ip
}

// URL returns the server's address for clients on this machine.
func (o *Options) URL() string {
	host := "127.0.0.1"
	if bind := o.IP("bind-address"); bind != nil && !bind.IsUnspecified() {
		host = bind.String()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(o.Kube.SecurePort()))
}
