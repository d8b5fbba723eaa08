package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// The values of --read-paths.
const (
	pathMillrace   = "millrace"
	pathKubernetes = "kubernetes"
)

// testbedOptions are the flags that say how servers are run.
type testbedOptions struct {
	readPaths    []string
	serverArgs   []string
	readyTimeout time.Duration
	workDir      string
	keep         bool
	skipFill     bool
	externalEtcd bool
}

func (o *testbedOptions) addFlags(f *pflag.FlagSet) {
	o.addServerFlags(f, "with --compare: ")
	f.BoolVar(&o.skipFill, "skip-fill", false, "with --compare: measure the data that --work-dir has from a former run")
}

// addServerFlags adds those of a command that fills in its data each time. when
// says where they hold.
func (o *testbedOptions) addServerFlags(f *pflag.FlagSet, when string) {
	f.StringSliceVar(&o.readPaths, "read-paths", []string{pathMillrace, pathKubernetes}, when+"what to run, in this order")
	f.StringArrayVar(&o.serverArgs, "server-arg", nil, when+"one more argument for every server; may be repeated")
	f.DurationVar(&o.readyTimeout, "ready-timeout", 2*time.Minute, when+"how long a server may take to be ready")
	f.StringVar(&o.workDir, "work-dir", "", when+"directory for data, logs and captures; it stays (default a temporary one)")
	f.BoolVar(&o.keep, "keep", false, when+"keep the temporary directory")
	f.BoolVar(&o.externalEtcd, "external-etcd", false, when+"run etcd in a process of its own, so that CPU and memory are the API server's alone")
}

// testbedFlags exist only with --compare.
func testbedFlags() []string {
	return []string{"read-paths", "server-arg", "ready-timeout", "work-dir", "keep", "skip-fill", "external-etcd"}
}

func (o *testbedOptions) validate() error {
	if len(o.readPaths) == 0 || len(o.readPaths) > 2 {
		return errors.New("--read-paths: choose one or two")
	}
	for i, path := range o.readPaths {
		if path != pathMillrace && path != pathKubernetes || slices.Contains(o.readPaths[:i], path) {
			return fmt.Errorf("--read-paths: choose %s, %s or both", pathMillrace, pathKubernetes)
		}
	}
	if o.skipFill && o.workDir == "" {
		return errors.New("--skip-fill needs the --work-dir of a former run")
	}
	return nil
}

// externalEtcdNote is what a report says of --external-etcd.
const externalEtcdNote = "etcd runs in a process of its own: CPU and memory are the API server's alone"

// testbedConfig configures a testbed. log is required.
type testbedConfig struct {
	testbedOptions
	log *progress
	// part is a directory inside workDir; zero value: workDir itself.
	part  string
	http1 bool
}

// testbed runs servers in turn over one data directory or one etcd.
type testbed struct {
	cfg  testbedConfig
	exe  string
	dir  string
	port int          // the same for all servers, so that a kubeconfig stays right
	etcd *etcdProcess // nil: each server has its own embedded
}

// openTestbed returns what to call at the end.
func openTestbed(ctx context.Context, program Config, cfg testbedConfig) (bed *testbed, closeBed func(), err error) {
	b := &testbed{cfg: cfg, dir: cfg.workDir}
	if b.exe, err = program.executable(); err != nil {
		return nil, nil, err
	}
	if b.port, err = freePort(); err != nil {
		return nil, nil, err
	}
	remove, err := b.makeDirs()
	if err != nil {
		return nil, nil, err
	}
	if cfg.workDir != "" || cfg.keep {
		cfg.log.phase("working in %s", b.dir)
	}
	if !cfg.externalEtcd {
		return b, remove, nil
	}
	if b.etcd, err = startEtcd(ctx, etcdRun{exe: b.exe, dir: b.etcdData(), log: b.logs("etcd.log")}); err != nil {
		remove()
		return nil, nil, err
	}
	return b, func() {
		b.etcd.end(ctx)
		remove()
	}, nil
}

// makeDirs returns what to call at the end.
func (b *testbed) makeDirs() (remove func(), err error) {
	remove = func() {}
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
			return nil, fmt.Errorf("create temporary directory: %w", err)
		}
		if !b.cfg.keep {
			remove = func() { os.RemoveAll(b.dir) }
		}
	} else {
		b.dir = filepath.Join(b.dir, b.cfg.part)
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return nil, fmt.Errorf("resolve work directory: %w", err)
	}
	_, err = os.Stat(b.data())
	if err == nil && b.cfg.skipFill && b.cfg.externalEtcd {
		_, err = os.Stat(b.etcdData())
	}
	switch {
	case err == nil && !b.cfg.skipFill:
		return nil, fmt.Errorf("%s has data already: pass --skip-fill to measure it, or choose another --work-dir", b.dir)
	case err != nil && b.cfg.skipFill:
		return nil, fmt.Errorf("--skip-fill: %s has no data of a former run", b.dir)
	}
	for _, dir := range []string{b.data(), b.captures(""), b.logs("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			remove()
			return nil, fmt.Errorf("create work directory: %w", err)
		}
	}
	return remove, nil
}

func (b *testbed) data() string                  { return filepath.Join(b.dir, "data") }
func (b *testbed) etcdData() string              { return filepath.Join(b.dir, "etcd") }
func (b *testbed) logs(name string) string       { return filepath.Join(b.dir, "logs", name) }
func (b *testbed) captures(server string) string { return filepath.Join(b.dir, "captures", server) }

func (b *testbed) start(ctx context.Context, readPath, log string) (*server, error) {
	args := b.cfg.serverArgs
	if b.etcd != nil {
		args = append([]string{"--etcd-servers=" + b.etcd.endpoint}, args...)
	}
	return startServer(ctx, serverConfig{
		exe: b.exe, readPath: readPath, dataDir: b.data(), port: b.port, log: b.logs(log + ".log"),
		args: args, http1: b.cfg.http1, timeout: b.cfg.readyTimeout,
	})
}

// end stops a server and tells when that took force.
func (b *testbed) end(ctx context.Context, s *server) {
	if !s.stop(ctx) {
		b.cfg.log.phase("server did not end after SIGTERM and was killed")
	}
}

// fill puts the data in, through a server that is used for nothing else or
// straight into an etcd that is there.
func (b *testbed) fill(ctx context.Context, f fillConfig) error {
	b.cfg.log.phase("filling in %s", f)
	to := "--kubeconfig=" + filepath.Join(b.data(), "admin.kubeconfig")
	if b.etcd != nil {
		to = "--etcd-servers=" + b.etcd.endpoint
	} else {
		s, err := b.start(ctx, b.cfg.readPaths[0], "serve-fill")
		if err != nil {
			return err
		}
		defer b.end(ctx, s)
	}
	filler, err := startChild(childConfig{path: b.exe, log: b.logs("fill.log"), args: append([]string{"fill", to}, f.args()...)})
	if err != nil {
		return err
	}
	return filler.wait(ctx)
}

// explain makes a server that ended by itself the reason of what failed.
func (b *testbed) explain(ctx context.Context, process *child, err error) error {
	if ctx.Err() != nil || err == nil && !process.exited() {
		return err
	}
	select {
	case <-process.done:
		return fmt.Errorf("measure %s: it ended by itself (%v)%s", process.cfg.args[0], process.err, process.tail())
	case <-time.After(time.Second): // a process that died just now is reaped within this time
		return err
	}
}
