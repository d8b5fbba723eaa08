package simulation

import (
	"math"
	"math/rand/v2"
)

// Config describes a tree and its writes.
type Config struct {
	Seed uint64
	// Tiers starts with the root. Watchers read at the last tier.
	Tiers []Tier
	// Classes are the kinds of writes.
	Classes []Class
	// Regular makes writes come at equal intervals. Otherwise they come at random times (Poisson).
	Regular bool
	// Seconds is the simulated time for which writes come.
	Seconds float64
	// Write is the time from a write until its event is at the root.
	Write Lognormal
	// HopSeconds is the time of the network between two tiers, and to a watcher.
	HopSeconds float64
	// SharedCores is the number of processors on which all processes and watchers run together.
	// 0: each process has Tier.Cores of its own, and watchers have machines of their own.
	SharedCores float64
	// WatcherSeconds is the CPU of a watcher per event. WriterSeconds is the CPU per write outside
	// the tree, in its client and in etcd. They have an effect on shared processors alone.
	WatcherSeconds, WriterSeconds float64
}

// Tier describes the processes of one depth.
type Tier struct {
	Processes int
	// Cores is the number of processors of each process that are free for events.
	Cores float64
	// The CPU of a process, in seconds.
	WriteSeconds  float64 // per write, at the root
	FollowSeconds float64 // per event that the process takes from the tier before
	FeedSeconds   float64 // per event and process of the next tier
	EventSeconds  float64 // per event and watcher
	// ByteSeconds is the time of the network card per byte. 0: the network is not a limit.
	ByteSeconds float64
}

// Class is a kind of writes. Each write makes one event.
type Class struct {
	PerSecond float64 // writes
	// Watchers is the number of watchers in the whole tree that receive the event.
	Watchers float64
	Bytes    float64 // of the event, to a watcher
}

// Lognormal is a distribution of times, in seconds. A Median of 0 means that all times are 0.
type Lognormal struct{ Median, P99 float64 }

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263

// sample returns a random time, in seconds.
func (l Lognormal) sample(random *rand.Rand) float64 {
	if l.Median <= 0 {
		return 0
	}
	return l.Median * math.Exp(random.NormFloat64()*math.Log(l.P99/l.Median)/z99)
}

// Result is the result of a run.
type Result struct {
	// CPUSeconds has the CPU of each tier: the sum of its processes.
	CPUSeconds []float64
	Writes     int
	Deliveries float64 // of events to watchers
	// P50 and P99 are percentiles of the time from a write to the receipt of its event, in seconds.
	P50, P99 float64
	// Overloaded says that work came faster than it was done. The run then ended early.
	Overloaded bool
}

// Bounds of a run.
const (
	// maxProcesses is the most processes of a tier that are simulated, unless they share processors.
	maxProcesses = 16
	// maxJobs bounds the jobs that a machine has at the same time. More jobs are an overload.
	maxJobs = 1000
)

// simulator is a simulation under way.
type simulator struct {
	cfg        *Config
	clock      clock
	random     *rand.Rand
	tiers      [][]*machine // by depth: the simulated processes
	delivered  latencies
	result     Result
	overloaded bool
}

// newSimulator returns a simulator with an empty event queue. cfg must not change.
func newSimulator(cfg *Config) *simulator {
	r := &simulator{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 1))}
	var shared *machine
	if cfg.SharedCores > 0 {
		shared = &machine{clock: &r.clock, cores: cfg.SharedCores}
	}
	for _, t := range cfg.Tiers {
		n := min(t.Processes, maxProcesses)
		if shared != nil {
			n = t.Processes
		}
		tier := make([]*machine, n)
		for i := range tier {
			if tier[i] = shared; shared == nil {
				tier[i] = &machine{clock: &r.clock, cores: t.Cores}
			}
		}
		r.tiers = append(r.tiers, tier)
	}
	r.result.CPUSeconds = make([]float64, len(cfg.Tiers))
	return r
}

// weight returns the number of processes of a tier for which a simulated one stands.
func (r *simulator) weight(tier int) float64 {
	return float64(r.cfg.Tiers[tier].Processes) / float64(len(r.tiers[tier]))
}

// start starts a job of a process and counts its work.
func (r *simulator) start(tier, process int, j *job) {
	r.result.CPUSeconds[tier] += j.work * r.weight(tier)
	r.startOn(r.tiers[tier][process], j)
}

// startOn starts a job on a machine. It does not count the work. A job without work is done
// immediately.
func (r *simulator) startOn(m *machine, j *job) {
	if j.work <= 0 {
		if j.done != nil {
			j.done()
		}
		return
	}
	r.overloaded = r.overloaded || len(m.jobs) >= maxJobs
	m.start(j)
}

// Run simulates writes and their events.
func Run(cfg Config) Result {
	r := newSimulator(&cfg)
	for i := range cfg.Classes {
		r.scheduleWrites(&cfg.Classes[i], r.firstArrival(i))
	}
	r.clock.run(func() bool { return r.overloaded })
	r.result.Overloaded = r.overloaded
	r.result.Deliveries = r.delivered.total
	r.result.P50, r.result.P99 = r.delivered.quantile(0.5), r.delivered.quantile(0.99)
	return r.result
}

// firstArrival returns the time of the first write of a class, in seconds.
func (r *simulator) firstArrival(class int) float64 {
	interval := 1 / r.cfg.Classes[class].PerSecond
	if r.cfg.Regular {
		return interval * float64(class) / float64(len(r.cfg.Classes))
	}
	return interval * r.random.ExpFloat64()
}

// scheduleWrites schedules the writes of a class from a time in seconds on.
func (r *simulator) scheduleWrites(class *Class, at float64) {
	if at >= r.cfg.Seconds || class.PerSecond <= 0 {
		return
	}
	r.clock.schedule(at, func() {
		r.write(class)
		interval := 1 / class.PerSecond
		if !r.cfg.Regular {
			interval *= r.random.ExpFloat64()
		}
		r.scheduleWrites(class, at+interval)
	})
}

// write starts a write. Its event is at all processes of the root some time later.
func (r *simulator) write(class *Class) {
	r.result.Writes++
	began, took := r.clock.now, r.cfg.Write.sample(r.random)
	root := &r.cfg.Tiers[0]
	arrive := func() {
		for process := range r.tiers[0] {
			r.arrive(class, 0, process, began)
		}
	}
	r.result.CPUSeconds[0] += root.WriteSeconds
	if r.cfg.SharedCores == 0 {
		r.clock.schedule(began+took, arrive)
		return
	}
	// On shared processors the write is a job: it takes longer beside other jobs. The rest of the
	// write's CPU is a second job at the same time.
	shared := r.tiers[0][0]
	r.startOn(shared, &job{work: took, parallelism: 1, done: arrive})
	r.startOn(shared, &job{work: max(0, root.WriteSeconds+r.cfg.WriterSeconds-took), parallelism: 1})
}

// arrive brings an event to a process, and starts the job that sends it on. began is the time of
// the write, in seconds.
func (r *simulator) arrive(class *Class, tier, process int, began float64) {
	t := &r.cfg.Tiers[tier]
	r.start(tier, process, &job{work: t.FollowSeconds, parallelism: 1, done: func() {
		if tier+1 < len(r.tiers) {
			r.feed(class, tier, process, began)
		} else {
			r.deliver(class, process, began)
		}
	}})
}

// feed sends an event to the processes of the next tier that follow a process, one after the other.
func (r *simulator) feed(class *Class, tier, process int, began float64) {
	here, below := len(r.tiers[tier]), len(r.tiers[tier+1])
	var children []int
	for child := range below {
		if child*here/below == process {
			children = append(children, child)
		}
	}
	if len(children) == 0 {
		return
	}
	t := &r.cfg.Tiers[tier]
	fanout := float64(r.cfg.Tiers[tier+1].Processes) / float64(t.Processes)
	cost := max(t.FeedSeconds, t.ByteSeconds*class.Bytes) * fanout / float64(len(children))
	var next func()
	next = func() {
		if len(children) == 0 {
			return
		}
		child := children[0]
		children = children[1:]
		r.start(tier, process, &job{work: cost, parallelism: 1, done: func() {
			r.clock.schedule(r.clock.now+r.cfg.HopSeconds, func() { r.arrive(class, tier+1, child, began) })
			next()
		}})
	}
	next()
}

// deliver sends an event to the watchers of a process.
func (r *simulator) deliver(class *Class, process int, began float64) {
	tier := len(r.tiers) - 1
	t := &r.cfg.Tiers[tier]
	watchers := class.Watchers / float64(t.Processes)
	if watchers < 1 {
		if r.random.Float64() >= watchers {
			return
		}
		watchers = 1
	}
	cores := t.Cores
	if r.cfg.SharedCores > 0 {
		cores = r.cfg.SharedCores
	}
	weight, hop, parallelism := r.weight(tier), r.cfg.HopSeconds, min(cores, watchers)
	sending := watchers * max(t.EventSeconds, t.ByteSeconds*parallelism*class.Bytes)
	receiving := 0.0
	if r.cfg.SharedCores > 0 {
		receiving = watchers * r.cfg.WatcherSeconds
	}
	r.result.CPUSeconds[tier] += sending * weight
	r.startOn(r.tiers[tier][process], &job{
		work: sending + receiving, parallelism: parallelism,
		served: func(from, to, fraction float64) {
			r.delivered.add(from-began+hop, to-began+hop, fraction*watchers*weight)
		},
	})
}
