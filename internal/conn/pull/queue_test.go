package pull_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/conn/pull"
)

// TestQueue compares a queue with a slice over random operations.
func TestQueue(t *testing.T) {
	var q pull.Queue[int]
	var want []int
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		if random.IntN(100) < 30+i/100%50 {
			q.Push(i + 1)
			want = append(want, i+1)
			continue
		}
		first := 0
		if len(want) > 0 {
			first, want = want[0], slices.Clone(want[1:])
		}
		if got := q.Pop(); got != first || q.Len() != len(want) {
			t.Fatalf("got %d, want %d; %d wait, want %d", got, first, q.Len(), len(want))
		}
	}
}
