package simulation

// Begin is the load of many watchers that begin at the same time.
type Begin struct {
	// Watchers is the number of watchers in the whole tree, and Resources the number of resources
	// that they watch, in equal parts.
	Watchers  float64
	Resources int
	// CPUSeconds is the CPU of one watcher at the process at which it reads, and WatcherSeconds
	// at the watcher itself. Bytes is the size of what it receives.
	CPUSeconds, WatcherSeconds, Bytes float64
	// ProofInterval is the time between two writes of one resource, in seconds. A replica gives
	// the first answers when the resource has changed. 0: it gives them at once.
	ProofInterval float64
}

// BeginResult is the result of a simulated begin.
type BeginResult struct {
	Seconds float64 // until the last watcher has all objects
	// CPUSeconds is the CPU of the processes at which watchers read, without the CPU of writes.
	CPUSeconds float64
}

// RunBegin simulates a begin. On shared processors writes go on meanwhile.
func RunBegin(cfg Config, begin Begin) BeginResult {
	r := newSimulator(&cfg)
	tier := len(r.tiers) - 1
	last := 0.0
	waiting := len(r.tiers[tier]) * begin.Resources
	for process := range r.tiers[tier] {
		for resource := range begin.Resources {
			proof := 0.0
			if tier > 0 {
				proof = begin.ProofInterval * (float64(resource) + r.random.Float64()) / float64(begin.Resources)
			}
			r.clock.schedule(proof, func() {
				r.serveBegin(process, &begin, func() {
					last = max(last, r.clock.now)
					waiting--
				})
			})
		}
	}
	if cfg.SharedCores > 0 {
		for i := range cfg.Classes {
			r.scheduleLoad(&cfg.Classes[i], r.firstArrival(i), func() bool { return waiting > 0 })
		}
	}
	r.clock.run(func() bool { return waiting == 0 })
	return BeginResult{Seconds: last, CPUSeconds: begin.Watchers * begin.CPUSeconds}
}

// serveBegin starts the job that serves the watchers of one resource at a process.
func (r *simulator) serveBegin(process int, begin *Begin, done func()) {
	tier := len(r.tiers) - 1
	t := &r.cfg.Tiers[tier]
	watchers := begin.Watchers / float64(t.Processes) / float64(begin.Resources)
	cores := t.Cores
	var receiving float64
	if r.cfg.SharedCores > 0 {
		cores = r.cfg.SharedCores
		receiving = begin.WatcherSeconds
	}
	each := max(begin.CPUSeconds, t.ByteSeconds*cores*begin.Bytes) + receiving
	r.startOn(r.tiers[tier][process], &job{work: watchers * each, parallel: cores, done: done})
}

// scheduleLoad schedules the CPU of a class's writes, from a time on, while goesOn returns true.
// The writes have no events.
func (r *simulator) scheduleLoad(class *Class, time float64, goesOn func() bool) {
	r.clock.schedule(time, func() {
		if !goesOn() {
			return
		}
		r.startOn(r.tiers[0][0], &job{work: r.cfg.Tiers[0].WriteSeconds + r.cfg.WriterSeconds, parallel: 1})
		r.scheduleLoad(class, time+1/class.PerSecond, goesOn)
	})
}
