package simulation

import "slices"

// clock is the event queue of the simulation: it makes calls in the order of their simulated times,
// and never waits. The queue is short, so a sorted slice takes the place of a heap.
type clock struct {
	now   float64 // simulated seconds since the start
	queue []scheduledCall
}

// scheduledCall is a function to call at a simulated time, in seconds.
type scheduledCall struct {
	at   float64
	call func()
}

// schedule makes run call a function at a time in seconds, which must be now or later. Calls of one
// time are made in FIFO order.
func (c *clock) schedule(at float64, call func()) {
	i, _ := slices.BinarySearchFunc(c.queue, at, func(s scheduledCall, at float64) int {
		if s.at <= at {
			return -1
		}
		return 1
	})
	c.queue = slices.Insert(c.queue, i, scheduledCall{at, call})
}

// run runs all calls until there are none, or until stop returns true.
func (c *clock) run(stop func() bool) {
	for len(c.queue) > 0 && !stop() {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.now = next.at
		next.call()
	}
}
