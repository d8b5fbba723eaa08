package hollow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/tool/display"
)

// concurrentDials bounds the simultaneous TLS handshakes. More would take longer in total.
const concurrentDials = 64

// fleet has all nodes and programs of one run.
type fleet struct {
	cfg      Config
	ctx      context.Context
	cancel   context.CancelCauseFunc
	server   *watchclient.Server
	admin    kubernetes.Interface // the user of the kubeconfig, for requests that no program sends
	progress *display.Line

	kubelet    *agentPlan
	perNode    []*agentPlan
	perCluster []*agentPlan
	podWatcher *agentPlan
	informers  atomic.Uint64 // number of reflectors made so far: the next reflector.number

	counters counters
	writes   writeCounters
	// Numbers of open connections, ready nodes, running pods and completed pods at present.
	connections, ready, podsRunning, podsDone atomic.Int64

	started    time.Time
	startNanos atomic.Int64 // nanoseconds until all nodes had started; 0 before
	// shownRequests and shownEvents are the counts at the last line of progress.
	shownRequests, shownEvents int64
	goroutines                 sync.WaitGroup

	mu struct {
		sync.Mutex
		clients   []*watchclient.Client
		pool      []*watchclient.Client // with ConnectionsPerNode: the clients that programs share
		nodes     []*node
		instances []*instance
		unserved  []string
	}
}

// Run runs hollow nodes until the context or the duration ends. The report is nil if there
// is an error.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	f, err := newFleet(cfg)
	if err != nil {
		return nil, err
	}
	if f.admin, err = NewClient(cfg.REST); err != nil {
		return nil, err
	}
	if f.server, err = watchclient.NewServer(cfg.REST, concurrentDials); err != nil {
		return nil, err
	}
	if !cfg.SkipPreflight {
		if err := preflight(ctx, f.admin, &cfg); err != nil {
			return nil, err
		}
	}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	defer f.cancel(nil)
	if cfg.Pods > 0 {
		if err := MakeShared(f.ctx, f.admin, &f.cfg); err != nil {
			return nil, err
		}
	}
	f.started = time.Now()
	report := f.runAndReport()
	if err := context.Cause(f.ctx); errors.Is(err, errForeignNode) {
		return nil, err
	}
	return report, nil
}

// Check returns an error if a configuration is wrong. It loads the profiles, and contacts no
// server.
func (c *Config) Check() error {
	_, err := newFleet(*c)
	return err
}

// newFleet returns a fleet that has not started. It contacts no server.
func newFleet(cfg Config) (*fleet, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	f := &fleet{cfg: cfg, progress: display.NewLine(cfg.Progress)}
	if cfg.Informers != nil {
		f.counters.observeError = cfg.Informers.Failed
	}
	f.writes = newWriteCounters(&f.counters)
	if err := f.loadProfiles(); err != nil {
		return nil, err
	}
	return f, f.checkFiles()
}

// loadProfiles sets the plans of all agents.
func (f *fleet) loadProfiles() error {
	if f.cfg.PodWatchers > 0 {
		agent, err := newPodWatcher()
		if err != nil {
			return err
		}
		f.podWatcher = newAgentPlan(&f.counters, agent)
	}
	set, err := agentprofile.Open(f.cfg.Profiles)
	if err != nil {
		return err
	}
	names := []string{agentprofile.Kubelet}
	if f.cfg.KubeProxy {
		names = append(names, agentprofile.KubeProxy)
	}
	for _, name := range append(names, f.cfg.Agents...) {
		p, err := set.Load(name)
		if err != nil {
			return err
		}
		for i := range p.Agents {
			plan := newAgentPlan(&f.counters, &p.Agents[i])
			switch {
			case name == agentprofile.Kubelet:
				f.kubelet = plan
			case plan.Per == agentprofile.PerNode:
				f.perNode = append(f.perNode, plan)
			default:
				f.perCluster = append(f.perCluster, plan)
			}
		}
	}
	return nil
}

// programsPerNode returns the number of programs of a node, its kubelet included.
func (f *fleet) programsPerNode() int {
	n := 1
	for _, plan := range f.perNode {
		n += plan.Instances
	}
	return n
}

// checkFiles returns an error if this process may not open a connection for each program. Go
// has already raised the limit as far as it can.
func (f *fleet) checkFiles() error {
	wanted := float64(f.cfg.Nodes) * float64(f.programsPerNode())
	if f.cfg.ConnectionsPerNode > 0 {
		wanted = float64(f.cfg.Nodes) * f.cfg.ConnectionsPerNode
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || float64(limit.Cur) > wanted+100 {
		return nil // an unknown limit is not a reason to fail
	}
	return fmt.Errorf("%d nodes need %.0f connections, and this process may open %d files: raise the limit (ulimit -n), or "+
		"share connections with --connections-per-node=1", f.cfg.Nodes, wanted, limit.Cur)
}

// runAndReport starts all nodes, waits for the end of the run, and stops them. The report is
// made while watches are still open.
func (f *fleet) runAndReport() *Report {
	following, stopShowing := context.WithCancel(f.ctx)
	var showing sync.WaitGroup
	showing.Go(func() { f.progress.Follow(following, f.progressText) })
	f.goroutines.Go(f.start)
	if f.cfg.Duration > 0 {
		timer := time.AfterFunc(f.cfg.Duration, func() { f.cancel(nil) })
		defer timer.Stop()
	}
	<-f.ctx.Done()
	stopShowing()
	showing.Wait()
	report := f.report()
	f.stop()
	return report
}

// start starts all nodes, as Config.Start says, and returns when they are ready or the run ends.
func (f *fleet) start() {
	pace := time.Duration(0)
	if f.cfg.Start == StartPaced {
		pace = time.Duration(float64(time.Second) / f.cfg.StartRate)
	}
	for n, plan := range f.perCluster {
		for k := range plan.Instances {
			f.addInstance(f.newInstance(plan, "", uint64(1<<40+n*1000+k)), f.newClient(), false).start(nil)
		}
	}
	for k := range f.cfg.PodWatchers {
		watcher := f.addInstance(f.newInstance(f.podWatcher, "", uint64(1<<41+k)), f.newClient(), false)
		watcher.start(&podWatcher{observer: f.cfg.Observer, number: k})
	}
	var begun sync.WaitGroup
	for i := range f.cfg.Nodes {
		if pace > 0 && i > 0 {
			select {
			case <-time.After(time.Until(f.started.Add(time.Duration(i) * pace))):
			case <-f.ctx.Done():
			}
		}
		if f.ctx.Err() != nil {
			break
		}
		node := f.newNode(i)
		begun.Go(node.start)
	}
	begun.Wait()
	if f.ctx.Err() == nil {
		f.startNanos.Store(int64(time.Since(f.started)))
		f.progress.Print("all %d nodes have started, after %s", f.cfg.Nodes, time.Since(f.started).Round(time.Millisecond))
		if f.cfg.Observer != nil {
			f.cfg.Observer.Started()
		}
		if f.cfg.Informers != nil {
			f.cfg.Informers.Started()
		}
	}
}

// newClient returns a new client. dropClient closes it, or at last stop.
func (f *fleet) newClient() *watchclient.Client {
	c := f.server.NewClient(f.ctx, func(change int) { f.connections.Add(int64(change)) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.clients = append(f.mu.clients, c)
	return c
}

// dropClient closes the client of a program that has ended.
func (f *fleet) dropClient(c *watchclient.Client) {
	f.mu.Lock()
	f.mu.clients = slices.DeleteFunc(f.mu.clients, func(other *watchclient.Client) bool { return other == c })
	f.mu.Unlock()
	c.Close()
}

// clientFor returns the client of a program of node i. shared reports that other programs may
// use it, too.
func (f *fleet) clientFor(i, program int) (c *watchclient.Client, shared bool) {
	perNode := f.cfg.ConnectionsPerNode
	if perNode == 0 {
		return f.newClient(), false
	}
	f.mu.Lock()
	missing := max(1, int(perNode*float64(f.cfg.Nodes)+0.5)) - len(f.mu.pool)
	f.mu.Unlock()
	for range missing {
		c := f.newClient()
		f.mu.Lock()
		f.mu.pool = append(f.mu.pool, c)
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	place := int(float64(i)*perNode) + program%max(1, int(perNode))
	return f.mu.pool[place%len(f.mu.pool)], true
}

// addInstance gives an instance its client, and returns it.
func (f *fleet) addInstance(i *instance, c *watchclient.Client, shared bool) *instance {
	i.shared = shared
	i.current.Store(c)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.instances = append(f.mu.instances, i)
	return i
}

// noteUnserved notes that the server does not serve a resource.
func (f *fleet) noteUnserved(resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.mu.unserved, resource) {
		f.mu.unserved = append(f.mu.unserved, resource)
	}
}

// stop ends all programs, and returns when all goroutines have ended. f.ctx must have ended.
func (f *fleet) stop() {
	f.goroutines.Wait()
	f.mu.Lock()
	nodes, instances := slices.Clone(f.mu.nodes), slices.Clone(f.mu.instances)
	f.mu.Unlock()
	for _, n := range nodes {
		n.stop()
	}
	for _, i := range instances {
		i.stop()
	}
	f.mu.Lock()
	clients := slices.Clone(f.mu.clients)
	f.mu.Unlock()
	var closing sync.WaitGroup
	for _, c := range clients {
		closing.Go(c.Close)
	}
	closing.Wait()
}

// report returns the counts so far.
func (f *fleet) report() *Report {
	r := &Report{
		Server: f.cfg.REST.Host, Options: f.cfg, Seconds: time.Since(f.started).Seconds(),
		StartSeconds: time.Duration(f.startNanos.Load()).Seconds(),
		Nodes:        f.ready.Load(), PodsRunning: f.podsRunning.Load(), PodsDone: f.podsDone.Load(), Connections: f.connections.Load(),
	}
	r.CPUSeconds, r.PeakBytes = ownUsage()
	f.counters.each(func(c *counter) { r.Rows = append(r.Rows, c.row()) })
	slices.SortStableFunc(r.Rows, func(a, b Row) int { return cmp.Compare(a.Agent, b.Agent) })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, resource := range f.mu.unserved {
		r.Notes = append(r.Notes, "The server does not serve "+resource+", which was left out.")
	}
	return r
}
