package simulation

import "slices"

// clock calls functions at their times, in order.
type clock struct {
	now   float64 // seconds
	queue []appointment
}

// appointment is a function to call.
type appointment struct {
	time float64
	call func()
}

// at has call called at a time that is not before the present, behind all calls of that time.
func (c *clock) at(time float64, call func()) {
	i, _ := slices.BinarySearchFunc(c.queue, time, func(a appointment, time float64) int {
		if a.time <= time {
			return -1
		}
		return 1
	})
	c.queue = slices.Insert(c.queue, i, appointment{time, call})
}

// run calls all functions until there are none. It stops earlier if stop says so.
func (c *clock) run(stop func() bool) {
	for len(c.queue) > 0 && !stop() {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.now = next.time
		next.call()
	}
}
