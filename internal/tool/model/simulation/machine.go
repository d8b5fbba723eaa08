package simulation

import "math"

// machine has processors that its jobs share: each job gets the same part, but no more than it can
// use.
type machine struct {
	clock   *clock
	cores   float64
	jobs    []*job
	updated float64 // time up to which jobs have progressed, in seconds
	version int     // of the set of jobs: an alarm for an older version is ignored
}

// job is work for the processors of a machine.
type job struct {
	work, left float64 // processor seconds
	parallel   float64 // the most processors that it can use at once
	rate       float64 // processors that it has now
	// served, unless it is nil, is called with the share of the job that was done between two
	// times. done, unless it is nil, is called at the end.
	served func(from, to, share float64)
	done   func()
}

var never = math.Inf(1)

// start adds a job, whose work must be above 0.
func (m *machine) start(j *job) {
	m.advance()
	j.left = j.work
	m.jobs = append(m.jobs, j)
	m.share()
}

// advance brings all jobs up to the present.
func (m *machine) advance() {
	now := m.clock.now
	if now > m.updated {
		for _, j := range m.jobs {
			done := min(j.left, j.rate*(now-m.updated))
			j.left -= done
			if j.served != nil && done > 0 {
				j.served(m.updated, now, done/j.work)
			}
		}
	}
	m.updated = now
}

// share divides the processors among the jobs, and sets the alarm for the first to end.
func (m *machine) share() {
	free, waiting := m.cores, len(m.jobs)
	for _, j := range m.jobs {
		j.rate = 0
	}
	for waiting > 0 {
		part := free / float64(waiting)
		limited := 0 // jobs that can use no more than part
		for _, j := range m.jobs {
			if j.rate == 0 && j.parallel <= part {
				j.rate = j.parallel
				free -= j.parallel
				limited++
			}
		}
		if limited > 0 {
			waiting -= limited
			continue
		}
		for _, j := range m.jobs {
			if j.rate == 0 {
				j.rate = part
			}
		}
		break
	}
	m.version++
	first := never
	for _, j := range m.jobs {
		first = min(first, j.left/j.rate)
	}
	if first < never {
		version := m.version
		m.clock.schedule(m.clock.now+first, func() { m.alarm(version) })
	}
}

// leastWork is the work that a job may have left when it ends: rounding leaves such amounts.
const leastWork = 1e-12

// alarm ends the jobs that are done, unless the set of jobs has changed since it was scheduled.
func (m *machine) alarm(version int) {
	if version != m.version {
		return
	}
	m.advance()
	var ended []*job
	kept := m.jobs[:0]
	for _, j := range m.jobs {
		if j.left <= leastWork+1e-9*j.work {
			ended = append(ended, j)
		} else {
			kept = append(kept, j)
		}
	}
	m.jobs = kept
	m.share()
	for _, j := range ended {
		if j.done != nil {
			j.done()
		}
	}
}
