package simulation

import "slices"

// clock calls functions at their times, in order.
type clock struct {
	now   float64 // seconds
	queue []appointment
}

// appointment is a function to call at a time, in seconds.
type appointment struct {
	time float64
	call func()
}

// schedule makes run call a function at a time, after the functions of that time that were
// scheduled before. The time must not be before now.
func (c *clock) schedule(time float64, call func()) {
	i, _ := slices.BinarySearchFunc(c.queue, time, func(a appointment, time float64) int {
		if a.time <= time {
			return -1
		}
		return 1
	})
	c.queue = slices.Insert(c.queue, i, appointment{time, call})
}

// run calls all functions until there are none, or until stop returns true.
func (c *clock) run(stop func() bool) {
	for len(c.queue) > 0 && !stop() {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.now = next.time
		next.call()
	}
}
