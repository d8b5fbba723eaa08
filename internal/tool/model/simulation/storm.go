package simulation

// Storm is the simultaneous start of many watchers.
type Storm struct {
	// Watchers is the number of watchers in the whole tree, and Resources the number of resources
	// that they watch, in equal parts.
	Watchers  float64
	Resources int
	// CPUSeconds is the CPU for one watcher at the process at which it reads, and WatcherSeconds
	// the CPU of the watcher itself.
	CPUSeconds, WatcherSeconds float64
	// Bytes is the size of what a watcher receives.
	Bytes float64
	// ProofSeconds is the time between two writes of one resource. A replica gives the first
	// answers when the resource has changed. 0: it gives them immediately.
	ProofSeconds float64
}

// StormResult is the result of a simulated storm.
type StormResult struct {
	Seconds float64 // until the last watcher has all objects
	// CPUSeconds is the CPU of the processes at which watchers read, without the CPU of writes.
	CPUSeconds float64
}

// RunStorm simulates a storm. On shared processors writes go on meanwhile.
func RunStorm(cfg Config, storm Storm) StormResult {
	r := newSimulator(&cfg)
	tier := len(r.tiers) - 1
	end := 0.0
	waiting := len(r.tiers[tier]) * storm.Resources
	for process := range r.tiers[tier] {
		for resource := range storm.Resources {
			proof := 0.0
			if tier > 0 {
				proof = storm.ProofSeconds * (float64(resource) + r.random.Float64()) / float64(storm.Resources)
			}
			r.clock.schedule(proof, func() {
				r.serveStorm(process, &storm, func() {
					end = max(end, r.clock.now)
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
	return StormResult{Seconds: end, CPUSeconds: storm.Watchers * storm.CPUSeconds}
}

// serveStorm starts the job that serves the watchers of one resource at a process.
func (r *simulator) serveStorm(process int, storm *Storm, done func()) {
	tier := len(r.tiers) - 1
	t := &r.cfg.Tiers[tier]
	watchers := storm.Watchers / float64(t.Processes) / float64(storm.Resources)
	cores := t.Cores
	var receiving float64
	if r.cfg.SharedCores > 0 {
		cores = r.cfg.SharedCores
		receiving = storm.WatcherSeconds
	}
	perWatcher := max(storm.CPUSeconds, t.ByteSeconds*cores*storm.Bytes) + receiving
	r.startOn(r.tiers[tier][process], &job{work: watchers * perWatcher, parallelism: cores, done: done})
}

// scheduleLoad schedules the CPU of a class's writes, from a time in seconds on, while goesOn
// returns true. The writes have no events.
func (r *simulator) scheduleLoad(class *Class, at float64, goesOn func() bool) {
	r.clock.schedule(at, func() {
		if !goesOn() {
			return
		}
		r.startOn(r.tiers[0][0], &job{work: r.cfg.Tiers[0].WriteSeconds + r.cfg.WriterSeconds, parallelism: 1})
		r.scheduleLoad(class, at+1/class.PerSecond, goesOn)
	})
}
