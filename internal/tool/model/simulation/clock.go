package simulation

import "container/heap"

// clock calls functions at their times, in order.
type clock struct {
	now    float64 // seconds
	queue  appointments
	number int
}

// appointment is a function to call. number keeps those of the same time in order.
type appointment struct {
	time   float64
	number int
	call   func()
}

// at has call called at a time that is not before the present.
func (c *clock) at(time float64, call func()) {
	c.number++
	heap.Push(&c.queue, appointment{time, c.number, call})
}

// run calls all functions until there are none. It stops earlier if stop says so.
func (c *clock) run(stop func() bool) {
	for len(c.queue) > 0 && !stop() {
		next := heap.Pop(&c.queue).(appointment)
		c.now = next.time
		next.call()
	}
}

// appointments is a heap.
type appointments []appointment

func (q appointments) Len() int      { return len(q) }
func (q appointments) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q appointments) Less(i, j int) bool {
	if q[i].time != q[j].time {
		return q[i].time < q[j].time
	}
	return q[i].number < q[j].number
}
func (q *appointments) Push(x any) { *q = append(*q, x.(appointment)) }
func (q *appointments) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}
