// Package kinds has one declaration of each kind.
package kinds

// Same has another comment here.
func Same(a int) int {
	b := a
	// Another comment.
	return b // the end
}

// Changed is a function whose body changes.
func Changed() int {
	return 2
}

// NewName was OldName.
func (v Value) NewName(limit int) int {
	total := 0
	for i := 0; i < limit; i++ {
		total += i
	}
	return total
}

type Value struct{ n int }

func (v Value) ByValue() int { return -v.n }

type Pointer struct{ n int }

func (p *Pointer) ByPointer() int { return -p.n }

type List[T any] struct{ items []T }

func (l *List[T]) Add(item T) { l.items = append(l.items, item, item) }

type Pair[K comparable, V any] struct {
	Key   K
	Value V
}

func (p Pair[K, V]) Swap(value V) Pair[K, V] { return Pair[K, V]{Key: p.Key, Value: value} }

// Apply is generic.
func Apply[T any](items []T, f func(T)) {
	for _, item := range items {
		f(item)
		f(item)
	}
}

type Alias = Pair[string, int64]

type (
	// InGroup is a type in a group.
	InGroup struct {
		// First has a comment.
		First  int // a comment at the end
		Second string
	}
	Other struct{}
)

// Fetcher is an interface.
type Fetcher interface {
	// Fetch gets it.
	Fetch(name, version string) error
	Close()
}

// WithMethods is named as a type: its methods count.
type WithMethods struct{ n int }

func (w *WithMethods) Kept() int { return w.n }

func (w *WithMethods) Edited() int { return -w.n }

func (w *WithMethods) Added() int { return w.n }

const Single = 2

const (
	One = "one"
	Two = "zwei"
)

const (
	First = iota
	Between
	Second
	Third
)

var Variable = map[string]int{"a": 2}

var (
	Grouped, Beside = 1, 3
	Raw             = `first


third`
)
