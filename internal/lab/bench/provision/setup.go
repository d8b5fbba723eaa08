package provision

import (
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// setup is the processes of one path, and how to reach them. In a cluster that exists, there
// are no processes but the components that were asked for.
type setup struct {
	bed *testbed.Testbed
	// front is where all programs read and write, and upstream what is behind a replica.
	front, upstream *testbed.Server
	target          *testbed.Target
	// cluster is the meter of the server of a cluster that exists. It is nil if that server does
	// not let its metrics be read, or was started here. clusterPeak is its highest memory.
	cluster     *testbed.Meter
	clusterPeak int64
	parts       []part
	components  []*testbed.Child
}

// part is a process with its meter.
type part struct {
	name  string
	child *testbed.Child // nil: nobody has to explain its end
	meter *testbed.Meter
}

// Names of parts, besides those of components.
const (
	partServer   = "server"
	partUpstream = "upstream"
	partEtcd     = "etcd"
)

// open starts the processes of a path. The caller must call close, also after an error.
func (b *bench) open(ctx context.Context, path, dir string) (s *setup, closeAll func(), err error) {
	opts := b.opts.Options
	opts.ExternalEtcd = path != pathCluster
	bed, closeBed, err := testbed.Open(ctx, testbed.Config{Options: opts, Progress: b.progress, Subdirectory: dir})
	if err != nil {
		return nil, func() {}, err
	}
	s = &setup{bed: bed}
	closeAll = func() {
		s.end(ctx)
		closeBed()
	}
	if path == pathCluster {
		if err = s.reach(&b.opts.server); err == nil {
			s.meterCluster(b.progress)
		}
	} else {
		err = s.startServers(ctx, b.opts, path)
	}
	if err == nil {
		err = s.startComponents(ctx, b.opts)
	}
	return s, closeAll, err
}

// reach finds a cluster that exists.
func (s *setup) reach(server *kubeconfig.Flags) error {
	config, err := server.Load("bench")
	if err != nil {
		return err
	}
	s.target, err = testbed.NewTarget(testbed.TargetConfig{REST: config})
	return err
}

// meterCluster measures the server of a cluster that exists by its metrics, if these can be
// read.
func (s *setup) meterCluster(progress *testbed.Progress) {
	meter, err := testbed.NewRemoteMeter(s.target)
	if err != nil {
		progress.Phase("the CPU and memory of the server are not known: %v", err)
		return
	}
	s.cluster = meter
	s.parts = append(s.parts, part{partServer, nil, meter})
}

// tracePeak runs work, and notes meanwhile the highest memory of the server of a cluster that
// exists. That of a process of this machine is in its meter.
func (s *setup) tracePeak(work func() error) (err error) {
	if s.cluster == nil {
		return work()
	}
	_, s.clusterPeak, err = s.cluster.PeakDuring(work)
	return err
}

// startServers starts the server of a path, and a replica in front of it.
func (s *setup) startServers(ctx context.Context, o *options, path string) (err error) {
	replica := path == pathReplicaAPI || path == pathReplicaEtcd
	readPath := path
	if replica {
		readPath = o.stock()
	}
	s.add(partEtcd, nil, s.bed.EtcdPID())
	if s.front, err = s.bed.Start(ctx, readPath, partServer); err != nil {
		return err
	}
	if replica {
		s.upstream = s.front
		s.add(partUpstream, s.upstream.Child, s.upstream.PID())
		s.front = nil
		if s.front, err = s.bed.StartReplica(ctx, testbed.ReplicaConfig{Log: "replica", Upstream: s.upstream, Etcd: path == pathReplicaEtcd}); err != nil {
			return err
		}
	}
	s.add(partServer, s.front.Child, s.front.PID())
	s.target = s.front.Target
	return nil
}

func (s *setup) add(name string, child *testbed.Child, pid int) {
	s.parts = append(s.parts, part{name, child, testbed.NewMeter(pid)})
}

// startComponents starts the controller manager and the scheduler, as far as they are to run.
func (s *setup) startComponents(ctx context.Context, o *options) error {
	if o.server.Given() && !o.ownComponents {
		return nil
	}
	for _, name := range []string{testbed.ControllerManager, testbed.Scheduler} {
		cfg := testbed.ComponentConfig{Name: name, Args: []string{
			"--kube-api-qps=" + strconv.Itoa(componentQPS), "--kube-api-burst=" + strconv.Itoa(componentQPS),
		}}
		var err error
		if s.front == nil {
			if cfg.Kubeconfig, err = s.bed.ClusterKubeconfig(&o.server); err != nil {
				return err
			}
		} else {
			if cfg.Kubeconfig, err = s.bed.ComponentKubeconfig(name, s.front); err != nil {
				return err
			}
			if name == testbed.ControllerManager {
				cfg.Args = append(cfg.Args, "--use-service-account-credentials=true",
					"--service-account-private-key-file="+s.bed.PKI("sa.key"), "--root-ca-file="+s.bed.PKI("ca.crt"))
			}
		}
		child, err := s.bed.StartComponent(ctx, cfg)
		if err != nil {
			return err
		}
		s.components = append(s.components, child)
		s.add(name, child, child.PID())
	}
	return nil
}

// rest is how hollow nodes and watchers reach the server, without a limit of their own.
func (s *setup) rest() *rest.Config { return s.target.Config.REST }

// end stops the processes, those in front first.
func (s *setup) end(ctx context.Context) {
	s.endComponents(ctx)
	for _, server := range []*testbed.Server{s.front, s.upstream} {
		if server != nil {
			s.bed.End(ctx, server)
		}
	}
}

// endComponents stops the components. They must not make anew what is being removed.
func (s *setup) endComponents(ctx context.Context) {
	for _, c := range slices.Backward(s.components) {
		c.Stop(ctx)
	}
	s.components = nil
}

// explainExit returns the error of a measurement. If a process has ended by itself, that is
// the error: the others only follow from it.
func (s *setup) explainExit(ctx context.Context, err error) error {
	for _, p := range s.parts {
		if p.child != nil {
			err = s.bed.ExplainExit(ctx, p.child, err)
		}
	}
	return err
}

// awaitRest waits until the server in front, if it is ours, does little.
func (s *setup) awaitRest(ctx context.Context, b *bench) error {
	if s.front == nil {
		return testbed.Sleep(ctx, b.opts.Settle)
	}
	_, err := testbed.NewMeter(s.front.PID()).AwaitIdleLogged(ctx, b.progress, "server", b.opts.Settle)
	return err
}

// cost is what a process has used during the measurement.
type cost struct {
	Part       string  `json:"part"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakBytes is the highest resident memory, but see result.PeaksSinceStart.
	PeakBytes int64 `json:"peakBytes"`
	// SentBytes is what the process has handed to the kernel: for servers nearly all of it
	// went to connections, after TLS. That of a server in a cluster that exists is not known.
	SentBytes int64 `json:"sentBytes,omitempty"`
}

// sample is one look at all processes.
type sample struct {
	parts        []testbed.Total
	client, busy time.Duration
	requests     map[string]int // by part
}

// read looks at all processes.
func (s *setup) read(ctx context.Context) (r sample, err error) {
	for _, p := range s.parts {
		total, err := testbed.ReadAll(p.meter)
		if err != nil {
			return r, err
		}
		r.parts = append(r.parts, total)
	}
	r.client, r.busy = testbed.ClientCPU(), testbed.BusyCPU()
	r.requests = map[string]int{}
	if s.upstream != nil {
		if r.requests[partUpstream], err = countRequests(ctx, s.upstream.Target); err != nil {
			return r, err
		}
	}
	r.requests[partServer], err = countRequests(ctx, s.target)
	if err != nil && s.front == nil {
		err = nil // a user of a cluster need not have the right to read metrics
	}
	return r, err
}

// countRequests is how many requests a server has answered.
func countRequests(ctx context.Context, t *testbed.Target) (n int, err error) {
	text, err := t.Metrics(ctx)
	testbed.ParseMetrics(text, func(m testbed.Metric) {
		if m.Name == "apiserver_request_total" {
			n += int(m.Value)
		}
	})
	return n, err
}

// resetPeaks begins the measurement of memory. It reports whether the kernel permits that for
// all processes.
func (s *setup) resetPeaks() bool {
	all := true
	for _, p := range s.parts {
		all = (p.meter == s.cluster || p.meter.ResetPeak()) && all
	}
	return all
}

// costs is what all processes have used between two readings.
func (s *setup) costs(before, after sample, res *result) {
	ours := after.client - before.client
	for i, p := range s.parts {
		used := after.parts[i].CPU - before.parts[i].CPU
		peak := after.parts[i].Peak
		if p.meter == s.cluster {
			peak = s.clusterPeak
		} else {
			ours += used
		}
		res.Costs = append(res.Costs, cost{p.name, used.Seconds(), peak, after.parts[i].Written - before.parts[i].Written})
	}
	res.ClientCPUSeconds = (after.client - before.client).Seconds()
	res.OtherCPUSeconds = max(0, (after.busy - before.busy - ours).Seconds())
	res.Requests = after.requests[partServer] - before.requests[partServer]
	res.UpstreamRequests = after.requests[partUpstream] - before.requests[partUpstream]
}
