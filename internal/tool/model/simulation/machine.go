package simulation

import "math"

// machine has processors that its jobs share: processor sharing with a bound for each job (max-min
// fairness). Jobs that can use little get what they can use. The other jobs get equal parts of the
// rest.
type machine struct {
	clock   *clock
	cores   float64 // above 0
	jobs    []*job
	updated float64 // time up to which jobs have progressed, in seconds
	version int     // of the set of jobs: complete ignores calls for older versions
}

// job is work for the processors of a machine.
type job struct {
	work        float64 // processor seconds, above 0
	left        float64 // processor seconds that are not done
	parallelism float64 // number of processors that it can use, above 0
	rate        float64 // number of processors that it has now
	// served, unless it is nil, is called with the fraction of the work that was done between two
	// times, in seconds.
	served func(from, to, fraction float64)
	// done, unless it is nil, is called at the end. It may start jobs.
	done func()
}

// start adds a job.
func (m *machine) start(j *job) {
	m.advance()
	j.left = j.work
	m.jobs = append(m.jobs, j)
	m.divide()
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

// divide sets the rates of the jobs, and schedules complete for the first to end.
func (m *machine) divide() {
	free, waiting := m.cores, len(m.jobs)
	for _, j := range m.jobs {
		j.rate = 0
	}
	for waiting > 0 {
		part := free / float64(waiting)
		limited := 0 // jobs that can use no more than part
		for _, j := range m.jobs {
			if j.rate == 0 && j.parallelism <= part {
				j.rate = j.parallelism
				free -= j.parallelism
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
	if len(m.jobs) == 0 {
		return
	}
	seconds := math.Inf(1) // until the first job ends
	for _, j := range m.jobs {
		seconds = min(seconds, j.left/j.rate)
	}
	version := m.version
	m.clock.schedule(m.clock.now+seconds, func() { m.complete(version) })
}

// A job is done although rounding leaves absoluteTolerance of work, in processor seconds, and
// relativeTolerance of its own work.
const (
	absoluteTolerance = 1e-12
	relativeTolerance = 1e-9
)

// complete ends the jobs that are done. It does nothing if jobs have started or ended since it was
// scheduled.
func (m *machine) complete(version int) {
	if version != m.version {
		return
	}
	m.advance()
	var ended []*job
	kept := m.jobs[:0]
	for _, j := range m.jobs {
		if j.left <= absoluteTolerance+relativeTolerance*j.work {
			ended = append(ended, j)
		} else {
			kept = append(kept, j)
		}
	}
	m.jobs = kept
	m.divide()
	for _, j := range ended {
		if j.done != nil {
			j.done()
		}
	}
}
