package pull

// Queue is a first-in-first-out queue that reuses its memory. The zero value is empty. It
// has no lock.
type Queue[T any] struct {
	items []T
	head  int
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push adds an item at the end.
func (q *Queue[T]) Push(item T) {
	if q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

// Pop removes and returns the first item. It returns the zero value if the queue is
// empty.
func (q *Queue[T]) Pop() (first T) {
	if q.Len() == 0 {
		return first
	}
	var none T
	first, q.items[q.head] = q.items[q.head], none
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return first
}
