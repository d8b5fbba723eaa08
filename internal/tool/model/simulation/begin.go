package simulation

// Begin is the load of many watchers that begin at the same time.
type Begin struct {
	// Watchers are those in the whole tree. They are of so many Resources, in equal parts.
	Watchers  float64
	Resources int
	// CPUSeconds is what one costs the process at which it reads, WatcherSeconds what it
	// costs the watcher itself, and Bytes what it receives.
	CPUSeconds, WatcherSeconds, Bytes float64
	// ProofInterval is the time between two writes of one resource: a replica reads its
	// first answers when the resource changes. 0: nothing is waited for.
	ProofInterval float64
}

// BeginResult is what it has come to.
type BeginResult struct {
	Seconds float64 // until the last watcher has all objects
	// CPUSeconds is of the processes at which watchers read, without that of writes.
	CPUSeconds float64
}

// RunBegin simulates the begin. Writes go on meanwhile on shared processors.
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
			r.clock.at(proof, func() {
				r.beginAt(process, &begin, func() {
					last = max(last, r.clock.now)
					waiting--
				})
			})
		}
	}
	if cfg.SharedCores > 0 {
		for i := range cfg.Classes {
			r.disturb(&cfg.Classes[i], r.firstArrival(i), func() bool { return waiting > 0 })
		}
	}
	r.clock.run(func() bool { return waiting == 0 })
	return BeginResult{Seconds: last, CPUSeconds: begin.Watchers * begin.CPUSeconds}
}

// beginAt serves the watchers of one resource at a process.
func (r *simulator) beginAt(process int, begin *Begin, done func()) {
	tier := len(r.tiers) - 1
	t := &r.cfg.Tiers[tier]
	watchers := begin.Watchers / float64(t.Processes) / float64(begin.Resources)
	cores, receiving := t.Cores, 0.0
	if r.cfg.SharedCores > 0 {
		cores, receiving = r.cfg.SharedCores, begin.WatcherSeconds
	}
	each := max(begin.CPUSeconds, t.ByteSeconds*cores*begin.Bytes) + receiving
	r.startAt(r.tiers[tier][process], &job{work: watchers * each, parallel: cores, done: done})
}

// disturb has writes cost their processors while something else goes on.
func (r *simulator) disturb(class *Class, time float64, goesOn func() bool) {
	r.clock.at(time, func() {
		if !goesOn() {
			return
		}
		r.startAt(r.tiers[0][0], &job{work: r.cfg.Tiers[0].WriteSeconds + r.cfg.WriterSeconds, parallel: 1})
		r.disturb(class, time+1/class.PerSecond, goesOn)
	})
}
