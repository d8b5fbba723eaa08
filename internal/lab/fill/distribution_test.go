package fill

import (
	"math"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// TestDistributions distributes sizes, labels and namespaces over objects, and measures them as
// millrace-tools analyze profile does.
func TestDistributions(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100, 1999, 20_000} {
		draw := newStream(1, drawProfile, n)
		r := &clusterprofile.Resource{
			Objects: float64(n), Bytes: 5200, Sizes: &clusterprofile.Sizes{P50: 4000, P90: 9000, P99: 21_000, Max: 60_000},
			Namespaces: max(1, float64(n)/10), LargestNamespace: float64(n) / 4,
		}
		s := newSizeDistribution(r, n)
		order := newPermutation(n, &draw)
		var all []float64
		sum := 0.0
		for i := range n {
			all = append(all, s.sizeAtRank(order.position(i), n))
			sum += all[i]
		}
		slices.Sort(all)
		near := func(what string, got, want float64) {
			if n >= 100 && math.Abs(got-want) > 0.02*want {
				t.Errorf("%d objects: %s is %.0f, want %.0f", n, what, got, want)
			}
		}
		near("mean", sum/float64(n), r.Bytes)
		for q, want := range map[float64]float64{.5: 4000, .9: 9000, .99: 21_000, 1: 60_000} {
			if n >= 1999 || q != .99 {
				near("a quantile", all[int(q*float64(n-1))], want)
			}
		}
		objects, values := 0, map[int]bool{}
		k := newValueDistribution(clusterprofile.Key{Key: "app", Objects: .6 * float64(n), Values: .6 * float64(n)}, n, &draw)
		namespaces := map[int]int{}
		placement := newNamespaceDistribution(r, n, round(r.Namespaces), &draw)
		for i := range n {
			if value, ok := k.valueNumber(i); ok {
				objects++
				values[value] = true
			}
			namespaces[placement.namespaceNumber(i)]++
		}
		if want := round(.6 * float64(n)); objects != want || len(values) != want {
			t.Errorf("%d objects: %d have a label with %d values, want %d", n, objects, len(values), want)
		}
		largest := 0
		for _, count := range namespaces {
			largest = max(largest, count)
		}
		if len(namespaces) != round(r.Namespaces) || n >= 100 && largest != round(r.LargestNamespace) {
			t.Errorf("%d objects: %d namespaces, the largest with %d; want %.0f and %.0f", n, len(namespaces), largest, r.Namespaces, r.LargestNamespace)
		}
	}
}

// TestPieces checks that pieces make an object larger by exactly the missing bytes.
func TestPieces(t *testing.T) {
	o := overhead{first: 20, piece: 60, limit: 5000}
	for missing, want := range map[int]int{0: 0, 70: 0, 90: 90, 1000: 1000, 3333: 3333, 9999: 5000} {
		got := 0
		for i, length := range o.pieces(missing) {
			if i == 0 {
				got += o.first
			}
			got += o.piece + length
		}
		if got != want {
			t.Errorf("missing %d: pieces add %d, want %d", missing, got, want)
		}
	}
}
