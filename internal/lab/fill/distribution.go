package fill

import (
	"math"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// permutation is a pseudo-random permutation of the numbers from 0 to n-1. It spreads the
// objects of one resource over values exactly: each value gets the planned number of objects.
type permutation struct{ n, factor, start int }

// newPermutation returns a permutation of n numbers. Permutations for different purposes take
// different draws, and are independent of each other.
func newPermutation(n int, draw *stream) permutation {
	n = max(1, n)
	// A factor near the golden section puts neighbours far apart. It must have no divisor in
	// common with n, or numbers would repeat.
	factor := max(1, int(float64(n)*(0.38+0.3*float64(draw.intBelow(1000))/1000)))
	for gcd(factor, n) != 1 {
		factor++
	}
	return permutation{n, factor, draw.intBelow(n)}
}

// position returns the place of object i. It is below n, and different for each i below n.
func (p permutation) position(i int) int { return (i%p.n*p.factor + p.start) % p.n }

// sizeDistribution is a distribution of sizes, in bytes, with the quantiles and the mean of a
// profile. Between two quantiles sizes grow with a power of the rank. The power is chosen so
// that the mean is right.
type sizeDistribution struct {
	ranks  []float64 // of the known quantiles, from 0 to 1
	values []float64 // the size at each of ranks
	power  float64
}

// flattest and steepest bound the power.
const (
	flattest = 0.02
	steepest = 50
)

// newSizeDistribution returns the sizes of n objects of a resource. It finds the power by bisection.
func newSizeDistribution(r *clusterprofile.Resource, n int) sizeDistribution {
	if r.Sizes == nil {
		return sizeDistribution{ranks: []float64{0, 1}, values: []float64{r.Bytes, r.Bytes}, power: 1}
	}
	s := sizeDistribution{ranks: []float64{0, .5, .9, .99, 1}, power: 1,
		values: []float64{r.Sizes.P50 / 2, r.Sizes.P50, r.Sizes.P90, r.Sizes.P99, r.Sizes.Max}}
	if r.Bytes == 0 {
		return s // the profile has the quantiles alone
	}
	low, high := flattest, float64(steepest)
	for range 30 {
		s.power = (low + high) / 2
		if s.mean(n) > r.Bytes { // the mean falls with the power
			low = s.power
		} else {
			high = s.power
		}
	}
	return s
}

// mean returns the mean size of n objects, in bytes. For many objects it is an estimate.
func (s sizeDistribution) mean(n int) float64 {
	const maxSamples = 2000
	n = min(n, maxSamples)
	sum := 0.0
	for k := range n {
		sum += s.sizeAtRank(k, n)
	}
	return sum / float64(max(1, n))
}

// sizeAtRank returns the size of the object that is number rank of n in the order of sizes.
func (s sizeDistribution) sizeAtRank(rank, n int) float64 {
	u := .5
	if n > 1 {
		u = float64(rank) / float64(n-1)
	}
	for i := 1; i < len(s.ranks); i++ {
		if u <= s.ranks[i] {
			t := (u - s.ranks[i-1]) / (s.ranks[i] - s.ranks[i-1])
			return s.values[i-1] + (s.values[i]-s.values[i-1])*math.Pow(t, s.power)
		}
	}
	return s.values[len(s.values)-1]
}

// valueDistribution gives a label or a field to as many objects as have it in a profile, with
// the profile's number of different values.
type valueDistribution struct {
	key             string
	objects, values int
	order           permutation
}

func newValueDistribution(k clusterprofile.Key, n int, draw *stream) valueDistribution {
	objects := min(n, round(k.Objects))
	return valueDistribution{key: k.Key, objects: objects, values: max(1, min(objects, round(k.Values))), order: newPermutation(n, draw)}
}

// valueNumber returns the number of object i's value. It returns false if object i has no value.
func (v valueDistribution) valueNumber(i int) (int, bool) {
	rank := v.order.position(i)
	return rank % v.values, rank < v.objects
}

// namespaceDistribution puts as many objects into the largest namespace as a profile has there,
// and divides the other objects evenly. The largest namespace is the last: a profile of a part of the
// objects is a profile of the first namespaces.
type namespaceDistribution struct {
	namespaces, largest int // largest is the number of objects in the last namespace
	order               permutation
}

func newNamespaceDistribution(r *clusterprofile.Resource, n, namespaces int, draw *stream) namespaceDistribution {
	namespaces = max(1, min(namespaces, n))
	even := (n + namespaces - 1) / namespaces
	return namespaceDistribution{namespaces: namespaces, largest: min(max(round(r.LargestNamespace), even), n-namespaces+1),
		order: newPermutation(n, draw)}
}

// namespaceNumber returns the number of object i's namespace.
func (d namespaceDistribution) namespaceNumber(i int) int {
	rank := d.order.position(i)
	if d.namespaces == 1 || rank < d.largest {
		return d.namespaces - 1
	}
	return (rank - d.largest) % (d.namespaces - 1)
}
