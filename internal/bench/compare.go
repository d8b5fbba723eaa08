package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// comparison is one run of "bench list --compare".
//
// Each server is measured in a process of its own that starts over the filled
// data, and each section in yet another one: so no server carries the garbage
// of filling or of an earlier section in its heap, and starting is measured
// with the same data. It costs a start for each section.
type comparison struct {
	*listBench
	exe  string
	dir  string
	port int          // the same for all servers, so that a kubeconfig stays right
	etcd *etcdProcess // nil: each server has its own embedded
}

func (b *listBench) compare(ctx context.Context, cfg Config) error {
	c := &comparison{listBench: b, dir: b.opts.workDir}
	var err error
	if c.exe, err = cfg.executable(); err != nil {
		return err
	}
	if c.port, err = freePort(); err != nil {
		return err
	}
	remove, err := c.makeDirs()
	if err != nil {
		return err
	}
	defer remove()
	return c.run(ctx)
}

// makeDirs returns what to call at the end.
func (c *comparison) makeDirs() (remove func(), err error) {
	remove = func() {}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
			return nil, fmt.Errorf("create temporary directory: %w", err)
		}
		if !c.opts.keep {
			remove = func() { os.RemoveAll(c.dir) }
		}
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return nil, fmt.Errorf("resolve work directory: %w", err)
	}
	_, err = os.Stat(c.data())
	if err == nil && c.opts.skipFill && c.opts.externalEtcd {
		_, err = os.Stat(c.etcdData())
	}
	switch {
	case err == nil && !c.opts.skipFill:
		return nil, fmt.Errorf("%s has data already: pass --skip-fill to measure it, or choose another --work-dir", c.dir)
	case err != nil && c.opts.skipFill:
		return nil, fmt.Errorf("--skip-fill: %s has no data of a former run", c.dir)
	}
	for _, dir := range []string{c.data(), c.captures(""), c.logs("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			remove()
			return nil, fmt.Errorf("create work directory: %w", err)
		}
	}
	return remove, nil
}

func (c *comparison) data() string                  { return filepath.Join(c.dir, "data") }
func (c *comparison) etcdData() string              { return filepath.Join(c.dir, "etcd") }
func (c *comparison) logs(name string) string       { return filepath.Join(c.dir, "logs", name) }
func (c *comparison) captures(server string) string { return filepath.Join(c.dir, "captures", server) }

func (c *comparison) run(ctx context.Context) error {
	if c.opts.workDir != "" || c.opts.keep {
		c.log.phase("working in %s", c.dir)
	}
	if c.opts.externalEtcd {
		var err error
		if c.etcd, err = startEtcd(ctx, etcdRun{exe: c.exe, dir: c.etcdData(), log: c.logs("etcd.log")}); err != nil {
			return err
		}
		defer c.etcd.end(ctx)
	}
	if !c.opts.skipFill {
		if err := c.fill(ctx); err != nil {
			return err
		}
	}
	var floor []measurable // of the first server
	for i, path := range c.opts.readPaths {
		s := serverReport{Name: path}
		done, err := c.measureServer(ctx, &s)
		if err != nil {
			return err
		}
		if i == 0 {
			floor = done
		}
		c.report.Servers = append(c.report.Servers, s)
	}
	if len(floor) == 0 {
		return nil
	}
	var err error
	c.report.Floor, err = c.measureFloor(ctx, floor)
	return err
}

func (c *comparison) start(ctx context.Context, readPath, log string) (*server, error) {
	args := c.opts.serverArgs
	if c.etcd != nil {
		args = append([]string{"--etcd-servers=" + c.etcd.endpoint}, args...)
	}
	return startServer(ctx, serverConfig{
		exe: c.exe, readPath: readPath, dataDir: c.data(), port: c.port, log: c.logs(log + ".log"),
		args: args, http1: c.opts.http1, timeout: c.opts.readyTimeout,
	})
}

// end stops a server and tells when that took force.
func (c *comparison) end(ctx context.Context, s *server) {
	if !s.stop(ctx) {
		c.log.phase("server did not end after SIGTERM and was killed")
	}
}

// fill puts the data in, through a server that is used for nothing else or
// straight into an etcd that is there.
func (c *comparison) fill(ctx context.Context) error {
	f := c.opts.fill
	c.log.phase("filling in %s", f)
	to := "--kubeconfig=" + filepath.Join(c.data(), "admin.kubeconfig")
	if c.etcd != nil {
		to = "--etcd-servers=" + c.etcd.endpoint
	} else {
		s, err := c.start(ctx, c.opts.readPaths[0], "serve-fill")
		if err != nil {
			return err
		}
		defer c.end(ctx, s)
	}
	filler, err := startChild(childConfig{path: c.exe, log: c.logs("fill.log"), args: append([]string{"fill", to}, f.args()...)})
	if err != nil {
		return err
	}
	if err := filler.wait(ctx); err != nil {
		return err
	}
	c.report.Data = &f
	return nil
}

// measureServer runs the workloads against a fresh server, and each section
// against another one.
func (c *comparison) measureServer(ctx context.Context, s *serverReport) (done []measurable, err error) {
	if len(c.opts.chosen.specs) > 0 {
		err = c.onFresh(ctx, s, "", func(l *loader) error {
			l.keep = s.Name == c.opts.readPaths[0]
			done, err = c.measure(ctx, l, s)
			return err
		})
	}
	for _, section := range sections() {
		if err != nil {
			return nil, err
		}
		if c.opts.chosen.sections[section.name] {
			err = c.onFresh(ctx, s, section.name, func(l *loader) error { return section.run(c.listBench, ctx, l, s) })
		}
	}
	return done, err
}

// onFresh starts a server, for a section or for the workloads, measures it and
// stops it.
func (c *comparison) onFresh(ctx context.Context, s *serverReport, section string, measure func(*loader) error) error {
	what, log := s.Name, "serve-"+s.Name
	if section != "" {
		what, log = section+" of "+what, log+"-"+section
	}
	c.log.phase("measuring %s", what)
	run, err := c.start(ctx, s.Name, log)
	if err != nil {
		return err
	}
	defer c.end(ctx, run)
	if s.StartMillis == 0 {
		s.StartMillis, s.Version = millis(run.startup), run.target.version(ctx)
	}
	l := c.loader(run.target, run.pid(), s.Name)
	if err := os.MkdirAll(l.captures, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	return c.explain(ctx, run.child, measure(l))
}

// measureFloor runs the same workloads against the captured bodies.
func (c *comparison) measureFloor(ctx context.Context, done []measurable) ([]result, error) {
	c.log.phase("measuring the floor")
	run, err := startFloor(ctx, floorRun{
		exe: c.exe, dir: c.captures(c.opts.readPaths[0]), log: c.logs("floor.log"), http1: c.opts.http1,
	}, done)
	if err != nil {
		return nil, err
	}
	defer run.stop(ctx)
	l := c.loader(run.target, run.pid(), "floor")
	if err := os.MkdirAll(l.captures, 0o755); err != nil {
		return nil, fmt.Errorf("create work directory: %w", err)
	}
	var results []result
	for _, m := range done {
		res, _, err := l.run(ctx, floorWorkload(m.workload))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			c.log.phase("failed: %v", err)
			res = result{Workload: m.workload.name, Error: err.Error()}
		}
		results = append(results, res)
	}
	return results, c.explain(ctx, run.child, nil)
}

func (c *comparison) loader(t *target, pid int, captures string) *loader {
	return &loader{target: t, meter: newMeter(pid), plan: c.opts.plan, captures: c.captures(captures), log: c.log}
}

// explain makes a server that ended by itself the reason of what failed.
func (c *comparison) explain(ctx context.Context, process *child, err error) error {
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
