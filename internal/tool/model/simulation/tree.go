package simulation

import (
	"math"
	"math/rand/v2"
)

// Config describes a tree and its writes.
type Config struct {
	Seed uint64
	// Tiers begin with the root. Watchers read at the last one.
	Tiers []Tier
	// Classes are the kinds of writes.
	Classes []Class
	// Regular writes come at equal intervals. Others come at random times (Poisson).
	Regular bool
	// Seconds is for how long writes come.
	Seconds float64
	// Write is the time from a write until its event is at the root.
	Write Lognormal
	// HopSeconds is what the network adds between two tiers, and to a watcher.
	HopSeconds float64
	// SharedCores are the processors on which all processes and watchers run together. 0:
	// each process has its own Tier.Cores, and watchers have machines of their own.
	SharedCores float64
	// WatcherSeconds is the processor time of a watcher for an event, and WriterSeconds is
	// that of a write outside the tree (its client, etcd). They matter on shared processors.
	WatcherSeconds, WriterSeconds float64
}

// Tier is the processes of one depth.
type Tier struct {
	Processes int
	// Cores are the processors of each process that are free for events.
	Cores float64
	// Processor seconds of a process: WriteSeconds for a write (the root alone),
	// FollowSeconds to take in an event from the tier before, FeedSeconds to send it to one
	// process of the next tier, EventSeconds to send it to one watcher.
	WriteSeconds, FollowSeconds, FeedSeconds, EventSeconds float64
	// ByteSeconds is the time of the network card for a byte. 0: it is no limit.
	ByteSeconds float64
}

// Class is writes of one kind.
type Class struct {
	PerSecond float64
	// Watchers are those in the whole tree to which the event goes.
	Watchers float64
	Bytes    float64 // of the event, to a watcher
}

// Lognormal is a distribution of times in seconds.
type Lognormal struct{ Median, P99 float64 }

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263

func (l Lognormal) sample(random *rand.Rand) float64 {
	if l.Median <= 0 {
		return 0
	}
	return l.Median * math.Exp(random.NormFloat64()*math.Log(l.P99/l.Median)/z99)
}

// Result is what a run has come to.
type Result struct {
	// CPUSeconds is of each tier: the sum of its processes.
	CPUSeconds []float64
	Writes     int
	Deliveries float64
	// P50 and P99 are the times from a write to the receipt of its event, in seconds.
	P50, P99 float64
	// Overloaded is true if work came faster than it was done, and the run was ended.
	Overloaded bool
}

// Bounds of a run.
const (
	// maxProcesses is how many processes of a tier are simulated.
	maxProcesses = 16
	// maxJobs is how many jobs a machine may have at once. More is an overload.
	maxJobs = 1000
)

// simulator is a simulation under way.
type simulator struct {
	cfg        *Config
	clock      clock
	random     *rand.Rand
	tiers      [][]*machine // by depth: the simulated processes
	watched    latencies
	result     Result
	overloaded bool
}

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

// weight is how many processes of a tier one that is simulated stands for.
func (r *simulator) weight(tier int) float64 {
	return float64(r.cfg.Tiers[tier].Processes) / float64(len(r.tiers[tier]))
}

// start starts a job of a tier and counts its work.
func (r *simulator) start(tier, process int, j *job) {
	r.result.CPUSeconds[tier] += j.work * r.weight(tier)
	r.startAt(r.tiers[tier][process], j)
}

func (r *simulator) startAt(m *machine, j *job) {
	if j.work <= 0 {
		if j.done != nil {
			j.done()
		}
		return
	}
	r.overloaded = r.overloaded || len(m.jobs) >= maxJobs
	m.start(j)
}

// Run simulates writes.
func Run(cfg Config) Result {
	r := newSimulator(&cfg)
	for i := range cfg.Classes {
		r.schedule(&cfg.Classes[i], r.firstArrival(i))
	}
	r.clock.run(func() bool { return r.overloaded })
	r.result.Overloaded = r.overloaded
	r.result.Deliveries = r.watched.total
	r.result.P50, r.result.P99 = r.watched.quantile(0.5), r.watched.quantile(0.99)
	return r.result
}

// firstArrival is the time of the first write of a class.
func (r *simulator) firstArrival(class int) float64 {
	interval := 1 / r.cfg.Classes[class].PerSecond
	if r.cfg.Regular {
		return interval * float64(class) / float64(len(r.cfg.Classes))
	}
	return interval * r.random.ExpFloat64()
}

// schedule has the writes of a class come from a time on.
func (r *simulator) schedule(class *Class, time float64) {
	if time >= r.cfg.Seconds || class.PerSecond <= 0 {
		return
	}
	r.clock.at(time, func() {
		r.write(class)
		interval := 1 / class.PerSecond
		if !r.cfg.Regular {
			interval *= r.random.ExpFloat64()
		}
		r.schedule(class, time+interval)
	})
}

// write makes a write, whose event is at all processes of the root some time later.
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
		r.clock.at(began+took, arrive)
		return
	}
	// On shared processors the write takes as long as it gets them, and what it costs
	// besides is done meanwhile.
	shared := r.tiers[0][0]
	r.startAt(shared, &job{work: took, parallel: 1, done: arrive})
	r.startAt(shared, &job{work: max(0, root.WriteSeconds+r.cfg.WriterSeconds-took), parallel: 1})
}

// arrive brings an event to a process, which sends it on.
func (r *simulator) arrive(class *Class, tier, process int, began float64) {
	t := &r.cfg.Tiers[tier]
	r.start(tier, process, &job{work: t.FollowSeconds, parallel: 1, done: func() {
		if tier+1 < len(r.tiers) {
			r.feed(class, tier, process, began)
		} else {
			r.deliver(class, process, began)
		}
	}})
}

// feed sends an event to the processes of the next tier that follow this one, one after the
// other.
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
		r.start(tier, process, &job{work: cost, parallel: 1, done: func() {
			r.clock.at(r.clock.now+r.cfg.HopSeconds, func() { r.arrive(class, tier+1, child, began) })
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
	weight, hop, parallel := r.weight(tier), r.cfg.HopSeconds, min(cores, watchers)
	sending := watchers * max(t.EventSeconds, t.ByteSeconds*parallel*class.Bytes)
	receiving := 0.0
	if r.cfg.SharedCores > 0 {
		receiving = watchers * r.cfg.WatcherSeconds
	}
	r.result.CPUSeconds[tier] += sending * weight
	r.startAt(r.tiers[tier][process], &job{
		work: sending + receiving, parallel: parallel,
		served: func(from, to, share float64) {
			r.watched.add(from-began+hop, to-began+hop, share*watchers*weight)
		},
	})
}
