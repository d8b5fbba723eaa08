package fill

import "github.com/millrace/millrace/internal/tool/clusterprofile"

// deal spreads the objects of one resource over values in an order that looks random and
// is exact: at(i) is another number below n for each i below n.
type deal struct{ n, factor, start int }

// newDeal makes a deal. Deals of other purposes are independent of each other.
func newDeal(n int, draw *stream) deal {
	n = max(1, n)
	// A factor near the golden section spreads neighbours far apart. Each deal has another.
	factor := max(1, int(float64(n)*(0.38+0.3*float64(draw.below(1000))/1000)))
	for gcd(factor, n) != 1 {
		factor++
	}
	return deal{n, factor, draw.below(n)}
}

func (d deal) at(i int) int { return (i%d.n*d.factor + d.start) % d.n }

// sizes is a distribution of sizes with the quantiles and the mean of a profile. Between two
// quantiles sizes grow with a power of the rank, which is chosen so that the mean is right.
type sizes struct {
	ranks  []float64
	values []float64
	power  float64
}

// steepest and flattest bound the power.
const (
	flattest = 0.02
	steepest = 50
)

// newSizes makes the sizes of n objects.
func newSizes(r *clusterprofile.Resource, n int) sizes {
	if r.Sizes == nil {
		return sizes{ranks: []float64{0, 1}, values: []float64{r.Bytes, r.Bytes}, power: 1}
	}
	s := sizes{ranks: []float64{0, .5, .9, .99, 1}, power: 1, values: []float64{r.Sizes.P50 / 2, r.Sizes.P50, r.Sizes.P90, r.Sizes.P99, r.Sizes.Max}}
	if r.Bytes == 0 {
		return s // the quantiles alone are told
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

// mean is that of n objects, or of some of them.
func (s sizes) mean(n int) float64 {
	const most = 2000
	n = min(n, most)
	sum := 0.0
	for k := range n {
		sum += s.of(k, n)
	}
	return sum / float64(max(1, n))
}

// of is the size of the object that has rank of n in the order of sizes.
func (s sizes) of(rank, n int) float64 {
	u := .5
	if n > 1 {
		u = float64(rank) / float64(n-1)
	}
	for i := 1; i < len(s.ranks); i++ {
		if u <= s.ranks[i] {
			t := (u - s.ranks[i-1]) / (s.ranks[i] - s.ranks[i-1])
			return s.values[i-1] + (s.values[i]-s.values[i-1])*pow(t, s.power)
		}
	}
	return s.values[len(s.values)-1]
}

// keyValues gives a label, or a field, to as many objects as have it in a profile, with as
// many values.
type keyValues struct {
	key             string
	objects, values int
	deal            deal
}

func newKeyValues(k clusterprofile.Key, n int, draw *stream) keyValues {
	objects := min(n, round(k.Objects))
	return keyValues{key: k.Key, objects: objects, values: max(1, min(objects, round(k.Values))), deal: newDeal(n, draw)}
}

// of returns the number of object i's value, and false if it has none.
func (k keyValues) of(i int) (int, bool) {
	rank := k.deal.at(i)
	return rank % k.values, rank < k.objects
}

// spread puts objects into namespaces: as many into the largest one as in a profile, and the
// others evenly. The largest one is the last, because a profile of some of the objects is one
// of the first namespaces.
type spread struct {
	namespaces, largest int
	deal                deal
}

func newSpread(r *clusterprofile.Resource, n, namespaces int, draw *stream) spread {
	namespaces = max(1, min(namespaces, n))
	even := (n + namespaces - 1) / namespaces
	return spread{namespaces: namespaces, largest: min(max(round(r.LargestNamespace), even), n-namespaces+1), deal: newDeal(n, draw)}
}

// of returns the number of object i's namespace.
func (s spread) of(i int) int {
	rank := s.deal.at(i)
	if s.namespaces == 1 || rank < s.largest {
		return s.namespaces - 1
	}
	return (rank - s.largest) % (s.namespaces - 1)
}
