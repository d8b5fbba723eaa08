// Package kinds has one declaration of each kind.
package kinds

// Same is a function of which only comments change.
func Same(a int) int {
	// One comment.
	b := a

	return b
}

// Changed is a function whose body changes.
func Changed() int {
	return 1
}

// Gone is not there in the new version.
func Gone() int { return 3 }

// OldName gets another name.
func (v Value) OldName(limit int) int {
	total := 0
	for i := 0; i < limit; i++ {
		total += i
	}
	return total
}

// Moved goes to another package.
func Moved() string { return "moved" }

type Value struct{ n int }

func (v Value) ByValue() int { return v.n }

type Pointer struct{ n int }

func (p *Pointer) ByPointer() int { return p.n }

type List[T any] struct{ items []T }

func (l *List[T]) Add(item T) { l.items = append(l.items, item) }

type Pair[K comparable, V any] struct {
	Key   K
	Value V
}

func (p Pair[K, V]) Swap(value V) Pair[K, V] { return Pair[K, V]{p.Key, value} }

// Apply is generic.
func Apply[T any](items []T, f func(T)) {
	for _, item := range items {
		f(item)
	}
}

type Alias = Pair[string, int]

type (
	// InGroup is a type in a group.
	InGroup struct {
		// First has a comment.
		First int

		Second string // and so has Second
	}
	Other struct{}
)

// Fetcher is an interface.
type Fetcher interface {
	// Fetch gets it.
	Fetch(name string) error
	Close()
}

// WithMethods is named as a type: its methods count.
type WithMethods struct{ n int }

func (w *WithMethods) Kept() int { return w.n }

func (w *WithMethods) Edited() int { return w.n }

func (w *WithMethods) Removed() int { return w.n }

const Single = 1

const (
	One = "one"
	Two = "two"
)

const (
	First = iota
	Second
	Third
)

var Variable = map[string]int{"a": 1}

var (
	Grouped, Beside = 1, 2
	Raw             = `first

third`
)
