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

// The values that --read-paths may have.
const (
	ReadPathMillrace   = "millrace"
	ReadPathKubernetes = "kubernetes"
	// ReadPathEncoded is ReadPathMillrace with all objects encoded by Kubernetes.
	ReadPathEncoded = "millrace-encoded"
	// ReadPathStock is a kube-apiserver that was built from Kubernetes' own modules.
	ReadPathStock = "kube-apiserver"
)

// Options are the flags that say how servers are run.
type Options struct {
	ReadPaths []string
	// Stock is the program of ReadPathStock.
	Stock        string
	millrace     string   // the program of all other servers; empty: the one that serverProgram finds
	serverArgs   []string // for servers of that program
	commonArgs   []string // for kube-apiserver too
	ReadyTimeout time.Duration
	workDir      string // empty: a temporary directory
	ExternalEtcd bool
	// At is the kubeconfig of a server to measure in place of starting any. Empty: none.
	At string
	// atContext is the context of At, and empty for its current one.
	atContext string
	changed   func(flag string) bool // whether the user has given a flag; set by AddAtFlags
}

// AddServerFlags adds the flags of a command that runs read paths in turn.
func (o *Options) AddServerFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.ReadPaths, "read-paths", []string{ReadPathMillrace, ReadPathKubernetes}, "what to run, in this order")
	f.StringVar(&o.Stock, "kube-apiserver", "", "kube-apiserver to run as the read path \""+ReadPathStock+"\", which needs --external-etcd")
	f.BoolVar(&o.ExternalEtcd, "external-etcd", false, "run etcd in a process of its own, so that CPU and memory are the API server's alone")
	o.AddProcessFlags(f, "")
	o.AddAtFlags(f, "")
}

// AddProcessFlags adds the flags of a command that chooses itself what it runs.
func (o *Options) AddProcessFlags(f *pflag.FlagSet, when string) {
	f.StringVar(&o.millrace, "millrace", "", when+"program that servers are started of (default: the one beside this program, else on the PATH)")
	f.StringArrayVar(&o.serverArgs, "server-arg", nil, when+"one more argument for every server of that program; may be repeated")
	f.DurationVar(&o.ReadyTimeout, "ready-timeout", 2*time.Minute, when+"how long a server may take to be ready")
	f.StringVar(&o.workDir, "work-dir", "", when+"directory for data, logs and captures; it stays (default a temporary one)")
}

// AddServerArg adds an argument for every server but kube-apiserver.
func (o *Options) AddServerArg(arg string) { o.serverArgs = append(o.serverArgs, arg) }

// HasServerArgs reports whether AddServerArg or the user has added any.
func (o *Options) HasServerArgs() bool { return len(o.serverArgs) > 0 }

// AddCommonArg adds an argument for every server, which kube-apiserver has too.
func (o *Options) AddCommonArg(arg string) { o.commonArgs = append(o.commonArgs, arg) }

// ValidateChoice is Validate for a command that starts servers only if it is asked to.
func (o *Options) ValidateChoice(start bool) error {
	if !start && o.At == "" {
		return errors.New("choose --compare, which starts servers, or --at for a server that runs")
	}
	return o.Validate()
}

// Validate checks the flags.
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
		return errors.New("--read-paths: choose one at least")
	}
	for i, path := range o.ReadPaths {
		if !slices.Contains(all, path) || slices.Contains(o.ReadPaths[:i], path) {
			return fmt.Errorf("--read-paths: choose among %s, each once", strings.Join(all, ", "))
		}
	}
	return nil
}

// CompareOverEtcd chooses what runs, unless the user has: Millrace and what to compare with. Each
// is over the same etcd, which is a process of its own.
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

// ExternalEtcdNote is what a report says of --external-etcd.
const ExternalEtcdNote = "etcd runs in a process of its own: CPU and memory are the API server's alone"

// Config configures a Testbed. Progress is required.
type Config struct {
	Options
	Progress *Progress
	// Subdirectory is below the work directory. Zero value: the work directory itself.
	Subdirectory string
	// HTTP1 says how servers are asked whether they are ready, and measured. Zero
	// value: HTTP/2.
	HTTP1 bool
}

// Testbed runs servers, one after another, over one data directory or one etcd.
//
// Every measurement can so have a process of its own over the same data: none carries
// the garbage of filling, or of an earlier measurement, in its heap. That costs the
// start of a server each time, which is measured too.
type Testbed struct {
	Config Config
	// Own is this program, for children that run its commands.
	Own  string
	dir  string
	port int          // the same for all servers, so that kubeconfigs stay valid
	etcd *etcdProcess // nil: each server has an embedded etcd, or there is none of the Testbed's
	// existingData says that the server of --at has data that must be removed.
	existingData bool
}

// Open makes the directories of a Testbed, and starts etcd if that is to be a process
// of its own. The caller must call closeBed after all servers have ended. Its error says that
// objects may be left in the server of --at.
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
			defer os.Remove(b.clusterKubeconfig()) // only there if a component has used it
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

// makeDirs makes the work directory and what is below it. remove deletes it again if
// it is temporary.
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
	for _, dir := range []string{b.data(), b.Captures(""), b.Logs("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			remove()
			return nil, fmt.Errorf("create work directory: %w", err)
		}
	}
	return remove, nil
}

func (b *Testbed) data() string     { return filepath.Join(b.dir, "data") }
func (b *Testbed) etcdData() string { return filepath.Join(b.dir, "etcd") }

// kubeconfig is the file in which "serve" writes the administrator's credentials.
func (b *Testbed) kubeconfig() string { return filepath.Join(b.data(), "admin.kubeconfig") }

// etcdFlag is the flag of servers that use the Testbed's etcd, which must exist.
func (b *Testbed) etcdFlag() string { return "--etcd-servers=" + b.etcd.endpoint }

// EtcdPID is the process id of the Testbed's etcd, which must exist.
func (b *Testbed) EtcdPID() int { return b.etcd.PID() }

// EtcdEndpoint is the address of the Testbed's etcd, which must exist.
func (b *Testbed) EtcdEndpoint() string { return b.etcd.endpoint }

// Logs is the path of a log.
func (b *Testbed) Logs(name string) string { return filepath.Join(b.dir, "logs", name) }

// Captures is the directory of the response bodies that a server has sent. It need not
// exist.
func (b *Testbed) Captures(server string) string { return filepath.Join(b.dir, "captures", server) }

// Start starts a server with a read path and returns when it is ready. The name of
// its log is without ".log". The caller must call End.
func (b *Testbed) Start(ctx context.Context, readPath, log string) (*Server, error) {
	if readPath == ReadPathExisting {
		return b.existing(ctx)
	}
	return b.startOn(ctx, readPath, log, b.port, b.data())
}

// StartAnother starts one more server, on a port of its own, beside those that Start has
// started. They need an external etcd. A Millrace server has a directory and
// certificates of its own, a kube-apiserver those of Start's.
func (b *Testbed) StartAnother(ctx context.Context, readPath, log string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := b.data()
	if readPath != ReadPathStock {
		data = filepath.Join(b.dir, "data-"+log)
	}
	return b.startOn(ctx, readPath, log, port, data)
}

func (b *Testbed) startOn(ctx context.Context, readPath, log string, on int, data string) (*Server, error) {
	cfg := b.serverConfig(readPath, log)
	cfg.port, cfg.kubeconfig = on, filepath.Join(data, "admin.kubeconfig")
	var etcd []string
	if b.etcd != nil {
		etcd = []string{b.etcdFlag()}
	}
	port := "--secure-port=" + strconv.Itoa(on)
	serve := []string{"serve", "--data-dir=" + data, "--read-path=" + readPath}
	switch readPath {
	case ReadPathStock:
		pki := filepath.Join(b.data(), "pki")
		if err := b.makeKeys(ctx, pki); err != nil {
			return nil, err
		}
		cfg.executable = b.Config.Stock
		cfg.args = slices.Concat(stockArgs(pki), []string{port}, etcd, b.Config.commonArgs)
		return startServer(ctx, cfg)
	case ReadPathEncoded:
		serve = []string{"serve", "--data-dir=" + data, "--read-path=" + ReadPathMillrace, "--transcode=false"}
	}
	cfg.args = slices.Concat(serve, []string{port}, etcd, b.Config.commonArgs, b.Config.serverArgs)
	return b.startMillrace(ctx, cfg)
}

// makeKeys has a Millrace server make the keys and certificates that a kube-apiserver
// is given, unless an earlier one has.
func (b *Testbed) makeKeys(ctx context.Context, pki string) error {
	if _, err := os.Stat(filepath.Join(pki, "apiserver.crt")); err == nil {
		return nil
	}
	s, err := b.startOn(ctx, ReadPathMillrace, "serve-keys", b.port, b.data())
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	b.End(ctx, s)
	return nil
}

// startMillrace starts a server of the program that has them.
func (b *Testbed) startMillrace(ctx context.Context, cfg serverConfig) (s *Server, err error) {
	if cfg.executable, err = b.Config.serverProgram(); err != nil {
		return nil, err
	}
	return startServer(ctx, cfg)
}

// serverConfig is that of a server on the Testbed's port, without its program and command line.
func (b *Testbed) serverConfig(name, log string) serverConfig {
	return serverConfig{
		name: name, port: b.port, logFile: b.Logs(log + ".log"), kubeconfig: b.kubeconfig(),
		http1: b.Config.HTTP1, timeout: b.Config.ReadyTimeout,
	}
}

// End stops a server, and tells the user if it had to be killed.
func (b *Testbed) End(ctx context.Context, s *Server) {
	if s.Child != nil && !s.Stop(ctx) {
		b.Config.Progress.Phase("server did not end after SIGTERM and was killed")
	}
}

// ExplainExit returns the error of a measurement of a child. The error may be nil, and so may
// the child. If the child has ended by itself, that is the error: the others only follow from
// it.
func (b *Testbed) ExplainExit(ctx context.Context, process *Child, err error) error {
	if process == nil || ctx.Err() != nil || err == nil && !process.exited() {
		return err
	}
	select {
	case <-process.done:
		return fmt.Errorf("measure %s: it ended by itself (%v)%s", process.cfg.Args[0], process.err, process.logTail())
	case <-time.After(time.Second): // a process that has just died is reaped within this time
		return err
	}
}
