package encode

import (
	"fmt"
	"strings"
	"testing"
)

// TestInvariantsFire breaks each sum and expects the next operation to panic, if the
// build checks invariants.
func TestInvariantsFire(t *testing.T) {
	if !invariantsEnabled {
		t.Skip("needs -tags invariants")
	}
	budget := func() *Budget {
		b := NewBudget(1 << 20)
		b.keepPlain(new(cell), segmentOf(100))
		return b
	}
	for name, c := range map[string]struct {
		corrupt func()
		want    string
	}{
		"budget": {func() {
			b := budget()
			b.used.Add(1)
			b.keepPlain(new(cell), segmentOf(100))
		}, "the budget says"},
		"cell that the budget does not know": {func() {
			b, c := budget(), new(cell)
			c.segment.Store(segmentOf(100))
			b.drop(c)
		}, "the budget says"},
		"transient queue": {func() {
			b := budget()
			b.mu.transient.bytes++
			b.retainTransient(segmentOf(100))
		}, "the transient queue says"},
		"admission": {func() {
			var a segmentAdmission
			a.mu.bytes = 1
			a.acquire(new(cell), 100)
		}, "admission says"},
		"recent frames": {func() {
			r := NewRecentFrames(1000)
			r.mu.bytes = 1
			r.keep(&Frame{bytes: make([]byte, 10)})
		}, "recent frames say"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.want) {
					t.Errorf("panic %q, want %q in it", got, c.want)
				}
			}()
			c.corrupt()
		})
	}
}
