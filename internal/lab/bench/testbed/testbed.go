package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Values of --read-paths.
const (
	ReadPathMillrace   = "millrace"
	ReadPathKubernetes = "kubernetes"
	// ReadPathEncoded is ReadPathMillrace, but Kubernetes' code encodes all objects.
	ReadPathEncoded = "millrace-encoded"
	// ReadPathStock is a kube-apiserver that was built from Kubernetes' own modules.
	ReadPathStock = "kube-apiserver"
)

// Options are the flags that say which servers run, and how.
type Options struct {
	ReadPaths []string
	// Stock is the program of ReadPathStock.
	Stock        string
	millrace     string   // the program of all other servers; empty: serverProgram finds it
	serverArgs   []string // for all servers but kube-apiserver
	commonArgs   []string // for all servers, kube-apiserver included
	ReadyTimeout time.Duration
	workDir      string // empty: a temporary directory
	ExternalEtcd bool
	// At is the kubeconfig of a server to measure in place of starting any. Empty: servers are
	// started.
	At string
	// atContext is the context of At. Empty: its current context.
	atContext string
	changed   func(flag string) bool // reports whether the user has given a flag; set by AddAtFlags
}

// AddServerFlags adds the flags of a command that runs one read path after the other.
func (o *Options) AddServerFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.ReadPaths, "read-paths", []string{ReadPathMillrace, ReadPathKubernetes}, "read paths to run, in this order")
	f.StringVar(&o.Stock, "kube-apiserver", "", "kube-apiserver to run as the read path \""+ReadPathStock+"\", which needs --external-etcd")
	f.BoolVar(&o.ExternalEtcd, "external-etcd", false, "run etcd in a process of its own, so that CPU and memory are the API server's alone")
	o.AddProcessFlags(f, "")
	o.AddAtFlags(f, "")
}

// AddProcessFlags adds the flags of a command that chooses itself which servers it runs. Each
// help text starts with when.
func (o *Options) AddProcessFlags(f *pflag.FlagSet, when string) {
	f.StringVar(&o.millrace, "millrace", "", when+"program that servers are started of (default: millrace beside this "+
		"program, otherwise on the PATH)")
	f.StringArrayVar(&o.serverArgs, "server-arg", nil, when+"further argument for every server but kube-apiserver; may be repeated")
	f.DurationVar(&o.ReadyTimeout, "ready-timeout", 2*time.Minute, when+"how long a server may take to be ready")
	f.StringVar(&o.workDir, "work-dir", "", when+"directory for data, logs and captures; it stays (default a temporary directory)")
}

// AddServerArg adds an argument for every server but kube-apiserver.
func (o *Options) AddServerArg(arg string) { o.serverArgs = append(o.serverArgs, arg) }

// HasServerArgs reports whether AddServerArg or the user has added an argument.
func (o *Options) HasServerArgs() bool { return len(o.serverArgs) > 0 }

// AddCommonArg adds an argument for every server, kube-apiserver included.
func (o *Options) AddCommonArg(arg string) { o.commonArgs = append(o.commonArgs, arg) }

// ValidateChoice does what Validate does, for a command that starts servers only if start is
// set.
func (o *Options) ValidateChoice(start bool) error {
	if !start && o.At == "" {
		return errors.New("choose --compare, which starts servers, or --at for a server that runs")
	}
	return o.Validate()
}

// Validate checks the flags. With --at it also sets the options that follow from it.
func (o *Options) Validate() error {
	if o.At != "" {
		return o.useExisting()
	}
	if o.atContext != "" {
		return errors.New("--at-context needs --at")
	}
	all := []string{ReadPathMillrace, ReadPathEncoded, ReadPathKubernetes}
	if o.Stock != "" && o.ExternalEtcd {
		all = append(all, ReadPathStock)
	}
	if len(o.ReadPaths) == 0 {
		return errors.New("--read-paths: choose at least one read path")
	}
	for i, readPath := range o.ReadPaths {
		if !slices.Contains(all, readPath) || slices.Contains(o.ReadPaths[:i], readPath) {
			return fmt.Errorf("--read-paths: choose among %s, each once", strings.Join(all, ", "))
		}
	}
	return nil
}

// CompareOverEtcd chooses Millrace and a stock read path, unless the user has chosen read paths. All
// servers use one etcd in a process of its own.
func (o *Options) CompareOverEtcd() {
	o.ExternalEtcd = true
	if len(o.ReadPaths) > 0 {
		return
	}
	o.ReadPaths = []string{ReadPathMillrace, ReadPathKubernetes}
	if o.Stock != "" {
		o.ReadPaths[1] = ReadPathStock
	}
}

// ExternalEtcdNote is the note of reports about --external-etcd.
const ExternalEtcdNote = "etcd runs in a process of its own: CPU and memory are the API server's alone"

// Config configures a Testbed. Progress is required.
type Config struct {
	Options
	Progress *Progress
	// Subdirectory is below the work directory. Zero value: the work directory itself.
	Subdirectory string
	// HTTP1 selects HTTP/1.1 for probes and measurements. Zero value: HTTP/2.
	HTTP1 bool
}

// Testbed runs servers, one after another, over one data directory or one etcd. Over an etcd of its
// own it can also run several at once, and replicas beside them.
//
// Every measurement can therefore have a process of its own over the same data. No heap has
// the garbage of filling, or of an earlier measurement. The price is a start of a server for each
// measurement. Starts are measured, too.
type Testbed struct {
	Config Config
	// Own is the path of this program, for children that run its commands.
	Own  string
	dir  string       // absolute
	port int          // the same for all servers of Start, so that kubeconfigs stay valid
	etcd *etcdProcess // nil: each server has an embedded etcd, or is the server of --at
	// existingData is set if the server of --at has data that must be removed.
	existingData bool
}

// Open creates the directories of a Testbed, and starts etcd if Options.ExternalEtcd is set. The
// caller must call closeBed after all servers have ended. An error of closeBed says that objects may
// be left in the server of --at. There is no such error without --at.
func Open(ctx context.Context, cfg Config) (bed *Testbed, closeBed func() error, err error) {
	b := &Testbed{Config: cfg, dir: cfg.workDir}
	if b.Own, err = ownProgram(); err != nil {
		return nil, nil, err
	}
	if b.port, err = freePort(); err != nil {
		return nil, nil, err
	}
	remove, err := b.makeDirs()
	if err != nil {
		return nil, nil, err
	}
	if cfg.workDir != "" {
		cfg.Progress.Phase("working in %s", b.dir)
	}
	if !cfg.ExternalEtcd {
		return b, func() error {
			defer remove()
			defer os.Remove(b.kubeconfigFile()) // it exists only if a component has used it
			return b.removeExisting(ctx)
		}, nil
	}
	if err = b.startEtcd(ctx); err != nil {
		remove()
		return nil, nil, err
	}
	return b, func() error {
		b.etcd.end(ctx)
		remove()
		return nil
	}, nil
}

// WithTestbed opens a Testbed, runs measure with it, and closes it. The error joins
// the error of measure and the error of closing.
func WithTestbed(ctx context.Context, cfg Config, measure func(*Testbed) error) (err error) {
	bed, closeBed, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBed()) }()
	return measure(bed)
}

// makeDirs creates the work directory and the directories below it. remove deletes the work
// directory if it is temporary.
func (b *Testbed) makeDirs() (remove func(), err error) {
	remove = func() {}
	if b.dir != "" {
		b.dir = filepath.Join(b.dir, b.Config.Subdirectory)
	} else if b.dir, remove, err = TemporaryDir(); err != nil {
		return nil, err
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return nil, fmt.Errorf("resolve work directory: %w", err)
	}
	if _, err = os.Stat(b.data()); err == nil {
		return nil, fmt.Errorf("%s has data already: choose another --work-dir", b.dir)
	}
	for _, dir := range []string{b.data(), b.CaptureDir(""), b.LogPath("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			remove()
			return nil, fmt.Errorf("create work directory: %w", err)
		}
	}
	return remove, nil
}

func (b *Testbed) data() string     { return filepath.Join(b.dir, "data") }
func (b *Testbed) etcdData() string { return filepath.Join(b.dir, "etcd") }

// kubeconfig returns the path of the file to which "serve" writes the administrator's
// credentials.
func (b *Testbed) kubeconfig() string { return filepath.Join(b.data(), "admin.kubeconfig") }

// etcdFlag returns the flag of servers that use the Testbed's etcd, which must exist.
func (b *Testbed) etcdFlag() string { return "--etcd-servers=" + b.etcd.endpoint }

// EtcdPID returns the process id of the Testbed's etcd, which must exist.
func (b *Testbed) EtcdPID() int { return b.etcd.PID() }

// EtcdEndpoint returns the address of the Testbed's etcd, which must exist.
func (b *Testbed) EtcdEndpoint() string { return b.etcd.endpoint }

// LogPath returns the path of a log, by the name of its file.
func (b *Testbed) LogPath(name string) string { return filepath.Join(b.dir, "logs", name) }

// CaptureDir returns the directory for the response bodies that a server has sent. The caller
// must make it.
func (b *Testbed) CaptureDir(server string) string { return filepath.Join(b.dir, "captures", server) }

// Start starts a server with a read path, and returns when it is ready. For ReadPathExisting it
// connects to the server of --at. logName is the name of the log without ".log". The caller
// must call End.
func (b *Testbed) Start(ctx context.Context, readPath, logName string) (*Server, error) {
	if readPath == ReadPathExisting {
		return b.connectExisting(ctx)
	}
	return b.startServerOn(ctx, readPath, logName, b.port, b.data())
}

// StartAnother starts one more server, on a port of its own, beside the one that Start has
// started. Both need an external etcd. A Millrace server gets a directory and certificates of
// its own. A kube-apiserver shares the directory and certificates of Start's server.
func (b *Testbed) StartAnother(ctx context.Context, readPath, logName string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := b.data()
	if readPath != ReadPathStock {
		data = filepath.Join(b.dir, "data-"+logName)
	}
	return b.startServerOn(ctx, readPath, logName, port, data)
}

// startServerOn starts a server with a read path on a port. dataDir has its keys, its
// administrator's kubeconfig and, without an external etcd, its data.
func (b *Testbed) startServerOn(ctx context.Context, readPath, logName string, port int, dataDir string) (*Server, error) {
	cfg := b.serverConfig(readPath, logName)
	cfg.port, cfg.kubeconfig = port, filepath.Join(dataDir, "admin.kubeconfig")
	var etcd []string
	if b.etcd != nil {
		etcd = []string{b.etcdFlag()}
	}
	portFlag := "--secure-port=" + strconv.Itoa(port)
	serve := []string{"serve", "--data-dir=" + dataDir, "--read-path=" + readPath}
	switch readPath {
	case ReadPathStock:
		pki := filepath.Join(b.data(), "pki")
		if err := b.makeKeys(ctx, pki); err != nil {
			return nil, err
		}
		cfg.executable = b.Config.Stock
		cfg.args = slices.Concat(stockArgs(pki), []string{portFlag}, etcd, b.Config.commonArgs)
		return startServer(ctx, cfg)
	case ReadPathEncoded:
		serve = []string{"serve", "--data-dir=" + dataDir, "--read-path=" + ReadPathMillrace, "--transcode=false"}
	}
	cfg.args = slices.Concat(serve, []string{portFlag}, etcd, b.Config.commonArgs, b.Config.serverArgs)
	return b.startMillrace(ctx, cfg)
}

// makeKeys creates the keys and certificates of a kube-apiserver, unless they exist. It starts and
// ends a Millrace server that creates them.
func (b *Testbed) makeKeys(ctx context.Context, pki string) error {
	if _, err := os.Stat(filepath.Join(pki, "apiserver.crt")); err == nil {
		return nil
	}
	s, err := b.startServerOn(ctx, ReadPathMillrace, "serve-keys", b.port, b.data())
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	b.End(ctx, s)
	return nil
}

// startMillrace starts a server of the program millrace, and sets cfg.executable.
func (b *Testbed) startMillrace(ctx context.Context, cfg serverConfig) (s *Server, err error) {
	if cfg.executable, err = b.Config.serverProgram(); err != nil {
		return nil, err
	}
	return startServer(ctx, cfg)
}

// serverConfig returns the configuration of a server on the Testbed's port, without its program
// and command line.
func (b *Testbed) serverConfig(name, logName string) serverConfig {
	return serverConfig{
		name: name, port: b.port, logFile: b.LogPath(logName + ".log"), kubeconfig: b.kubeconfig(),
		http1: b.Config.HTTP1, timeout: b.Config.ReadyTimeout,
	}
}

// End stops a server, and shows the user if it had to be killed. It leaves the server of --at
// alone.
func (b *Testbed) End(ctx context.Context, s *Server) {
	if s.Child != nil && !s.Stop(ctx) {
		b.Config.Progress.Phase("server did not end after SIGTERM and was killed")
	}
}

// ExplainExit returns the error of a measurement of a child. If the child has ended by itself and
// ctx has not ended, the error says so, because err is then only a consequence. Otherwise the error
// is err. Both err and child may be nil.
func (b *Testbed) ExplainExit(ctx context.Context, child *Child, err error) error {
	if child == nil || ctx.Err() != nil || err == nil && !child.exited() {
		return err
	}
	select {
	case <-child.done:
		return fmt.Errorf("measure %s: it ended by itself (%v)%s", child.cfg.Args[0], child.err, child.logTail())
	case <-time.After(time.Second): // a process that has just died is reaped within this time
		return err
	}
}
