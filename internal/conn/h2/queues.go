package h2

// queues hold the streams that have something to send. A stream is in at most one of
// them, and a closed stream in none. So their length is bounded by the number of open
// streams, whatever the client's flow-control windows allow.
type queues struct {
	ready streamQueue
	// starved streams wait for the connection's flow-control window. They come before ready
	// streams when it opens.
	starved streamQueue
}

// next removes and returns the stream whose turn it is. It returns nil if there is none.
// windowOpen says that the connection's flow-control window is open.
func (q *queues) next(windowOpen bool) *stream {
	s := q.starved.first
	if s == nil || !windowOpen {
		s = q.ready.first
	}
	if s != nil {
		s.queue.remove(s)
	}
	return s
}

// streamQueue is a doubly linked list, because a closed stream leaves it from the middle.
type streamQueue struct {
	first, last *stream
	length      int
}

// queueLinks are a stream's links in a queue. The zero value means that it is in none.
type queueLinks struct {
	queue      *streamQueue
	prev, next *stream
}

// push adds a stream, which must be in no queue, at the end.
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

// remove takes out a stream that is in this queue.
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
