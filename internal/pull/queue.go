package pull

// Queue is a queue that uses its room again. The zero value is empty.
type Queue[T any] struct {
	items []T
	head  int
}

// Len is how many wait.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push puts one behind the others.
func (q *Queue[T]) Push(item T) {
	if q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

// Pop takes the first, and the zero value if there is none.
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
