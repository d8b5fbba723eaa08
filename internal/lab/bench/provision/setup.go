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

// setup has the processes of one path, and the address of the server. In a cluster that exists, the only
// processes are the components of --own-components.
type setup struct {
	bed *testbed.Testbed
	// front is the server at which all programs read and write. It is nil in a cluster that exists.
	// upstream is the upstream of a replica. It is nil without a replica.
	front, upstream *testbed.Server
	target          *testbed.Target // of front, or of the cluster
	// cluster is the meter of the server of a cluster that exists. It is nil if the server's metrics
	// cannot be read, or if the server was started here. clusterPeak is its highest memory in bytes.
	cluster     *testbed.Meter
	clusterPeak int64
	parts       []part
	components  []*testbed.Child
}

// part is a process with its meter.
type part struct {
	name  string
	child *testbed.Child // nil: explainExit leaves the part out
	meter *testbed.Meter
}

// Names of parts, besides the names of components.
const (
	partServer   = "server"
	partUpstream = "upstream"
	partEtcd     = "etcd"
)

// open starts the processes of a path. The caller must call closeAll, also after an error.
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

// reach sets the target to a cluster that exists.
func (s *setup) reach(server *kubeconfig.Flags) error {
	config, err := server.Load("bench")
	if err != nil {
		return err
	}
	s.target, err = testbed.NewTarget(testbed.TargetConfig{REST: config})
	return err
}

// meterCluster adds the server of a cluster that exists as a part. It shows the user if the server's
// metrics cannot be read.
func (s *setup) meterCluster(progress *testbed.Progress) {
	meter, err := testbed.NewRemoteMeter(s.target)
	if err != nil {
		progress.Phase("the CPU and memory of the server are not known: %v", err)
		return
	}
	s.cluster = meter
	s.parts = append(s.parts, part{partServer, nil, meter})
}

// tracePeak runs work, and sets clusterPeak meanwhile. Processes of this machine have their peak in
// their meters.
func (s *setup) tracePeak(work func() error) (err error) {
	if s.cluster == nil {
		return work()
	}
	_, s.clusterPeak, err = s.cluster.PeakDuring(work)
	return err
}

// startServers starts the server of a path, and its replica. It sets front, upstream and target.
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
		replica := testbed.ReplicaConfig{LogName: "replica", Upstream: s.upstream, Etcd: path == pathReplicaEtcd}
		if s.front, err = s.bed.StartReplica(ctx, replica); err != nil {
			return err
		}
	}
	s.add(partServer, s.front.Child, s.front.PID())
	s.target = s.front.Target
	return nil
}

// add adds a process as a part.
func (s *setup) add(name string, child *testbed.Child, pid int) {
	s.parts = append(s.parts, part{name, child, testbed.NewMeter(pid)})
}

// startComponents starts the controller manager and the scheduler, unless the cluster has its own.
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
					"--service-account-private-key-file="+s.bed.PKIPath("sa.key"), "--root-ca-file="+s.bed.PKIPath("ca.crt"))
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

// rest returns the configuration with which hollow nodes and watchers reach the server.
func (s *setup) rest() *rest.Config { return s.target.Config.REST }

// end stops the processes. Each is stopped before its upstream.
func (s *setup) end(ctx context.Context) {
	s.endComponents(ctx)
	for _, server := range []*testbed.Server{s.front, s.upstream} {
		if server != nil {
			s.bed.End(ctx, server)
		}
	}
}

// endComponents stops the components. Otherwise they would recreate objects that are being removed.
func (s *setup) endComponents(ctx context.Context) {
	for _, c := range slices.Backward(s.components) {
		c.Stop(ctx)
	}
	s.components = nil
}

// explainExit does what testbed.ExplainExit does, for all parts.
func (s *setup) explainExit(ctx context.Context, err error) error {
	for _, p := range s.parts {
		if p.child != nil {
			err = s.bed.ExplainExit(ctx, p.child, err)
		}
	}
	return err
}

// awaitIdle waits until front is idle. For a cluster that exists, it waits for the time of --settle.
func (s *setup) awaitIdle(ctx context.Context, b *bench) error {
	if s.front == nil {
		return testbed.Sleep(ctx, b.opts.Settle)
	}
	_, err := testbed.NewMeter(s.front.PID()).AwaitIdleWithProgress(ctx, b.progress, "server", b.opts.Settle)
	return err
}

// cost is what a part has used during the measurement.
type cost struct {
	Part       string  `json:"part"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakBytes is the highest resident memory (but see result.PeaksSinceStart).
	PeakBytes int64 `json:"peakBytes"`
	// SentBytes is the number of bytes that the process has handed to the kernel. For servers nearly
	// all of them went to connections, after TLS. It is 0 for a cluster that exists.
	SentBytes int64 `json:"sentBytes,omitempty"`
}

// sample is one reading of all processes.
type sample struct {
	parts        []testbed.Total // in the order of setup.parts
	client, busy time.Duration   // CPU of this process, and of the machine
	requests     map[string]int  // by part
}

// takeSample takes a reading of all processes.
func (s *setup) takeSample(ctx context.Context) (r sample, err error) {
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

// countRequests returns the number of requests that a server has answered.
func countRequests(ctx context.Context, t *testbed.Target) (n int, err error) {
	text, err := t.Metrics(ctx)
	testbed.ParseMetrics(text, func(m testbed.Metric) {
		if m.Name == "apiserver_request_total" {
			n += int(m.Value)
		}
	})
	return n, err
}

// resetPeaks resets the peaks of memory. It reports whether the kernel permitted that for all processes
// of this machine.
func (s *setup) resetPeaks() bool {
	all := true
	for _, p := range s.parts {
		all = (p.meter == s.cluster || p.meter.ResetPeak()) && all
	}
	return all
}

// setCosts sets the costs in res: what all processes have used between two readings.
func (s *setup) setCosts(before, after sample, res *result) {
	ours := after.client - before.client
	for i, p := range s.parts {
		used := after.parts[i].CPU - before.parts[i].CPU
		peak := after.parts[i].Peak
		if p.meter == s.cluster {
			peak = s.clusterPeak
		} else {
			ours += used
		}
		res.Costs = append(res.Costs, cost{p.name, used.Seconds(), peak, after.parts[i].BytesWritten - before.parts[i].BytesWritten})
	}
	res.ClientCPUSeconds = (after.client - before.client).Seconds()
	res.OtherCPUSeconds = max(0, (after.busy - before.busy - ours).Seconds())
	res.Requests = after.requests[partServer] - before.requests[partServer]
	res.UpstreamRequests = after.requests[partUpstream] - before.requests[partUpstream]
}
