package h2

// queues are the streams that have something to send. A stream is in one of them at
// most, and in none when it is closed: what a connection holds is bounded by its open
// streams, whatever its client lets through.
type queues struct {
	ready streamQueue
	// starved wait for the connection's window, before those that came later.
	starved streamQueue
}

// next takes the stream whose turn it is, nil if there is none.
func (q *queues) next(window bool) *stream {
	s := q.starved.first
	if s == nil || !window {
		s = q.ready.first
	}
	if s != nil {
		s.queue.remove(s)
	}
	return s
}

// streamQueue is a doubly linked list: a stream that is closed leaves its middle.
type streamQueue struct {
	first, last *stream
	length      int
}

// queueLinks are a stream's place in a queue. The zero value is in none.
type queueLinks struct {
	queue      *streamQueue
	prev, next *stream
}

// push puts a stream, which is in no queue, behind the others.
func (q *streamQueue) push(s *stream) {
	s.queueLinks = queueLinks{queue: q, prev: q.last}
	if q.last == nil {
		q.first = s
	} else {
		q.last.next = s
	}
	q.last = s
	q.length++
}

// remove takes out a stream that is in the queue.
func (q *streamQueue) remove(s *stream) {
	if s.prev == nil {
		q.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		q.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.queueLinks = queueLinks{}
	q.length--
}
