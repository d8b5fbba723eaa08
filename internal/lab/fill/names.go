package fill

import (
	"fmt"
	"math/bits"
	"strings"
)

const (
	domainWords = "orders payments catalog search identity billing inventory shipping pricing reviews " +
		"sessions profiles messaging alerts reports invoices coupons tickets devices metrics"
	roleWords  = "api worker web gateway scheduler indexer sync cache exporter consumer"
	tierWords  = "frontend backend data platform"
	plainWords = "timeout retries endpoint enabled region primary replica bucket token limit interval " +
		"buffer threads queue topic broker shard cluster local internal service http grpc tls"
)

// vocabulary has the words of a generator. It does not change after newVocabulary.
type vocabulary struct {
	apps  []string
	tiers []string
	plain []string
}

func newVocabulary() vocabulary {
	w := vocabulary{
		tiers: strings.Fields(tierWords),
		plain: strings.Fields(domainWords + " " + roleWords + " " + tierWords + " " + plainWords),
	}
	for _, role := range strings.Fields(roleWords) {
		for _, domain := range strings.Fields(domainWords) {
			w.apps = append(w.apps, domain+"-"+role)
		}
	}
	return w
}

// longestApp returns the index of the application with the longest name.
func (w vocabulary) longestApp() int {
	longest := 0
	for i, app := range w.apps {
		if len(app) > len(w.apps[longest]) {
			longest = i
		}
	}
	return longest
}

// safeAlphabet has no vowels and no look-alike characters. Kubernetes generates pod
// names from the same kind of alphabet.
const safeAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// safeName encodes index as a name that looks random. For one start, indexes below
// len(safeAlphabet)^digits have different names. The reason is that
// index·factor+start is a bijection: factor and the alphabet's length (27) have no
// common divisor.
func safeName(start uint64, index uint64, digits int) string {
	const factor = 25214903917
	radix := uint64(len(safeAlphabet))
	size := uint64(1)
	for range digits {
		size *= radix
	}
	high, low := bits.Mul64(index, factor)
	n := (bits.Rem64(high, low, size) + start%size) % size
	name := make([]byte, digits)
	for i := range name {
		name[i] = safeAlphabet[n%radix]
		n /= radix
	}
	return string(name)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (g *Generator) namespaceName(i int) string {
	return fmt.Sprintf("fill-%d-%05d", g.shape.Seed, i)
}

func (g *Generator) nodeName(i int) string { return NodeName(g.shape.Seed, i) }

// NodeName returns the name of node i of a seed.
func NodeName(seed uint64, i int) string { return fmt.Sprintf("fill-%d-node-%06d", seed, i) }

// Addresses of nodes and pods. They repeat after 65,536 nodes.

func nodeIP(i int) string  { return fmt.Sprintf("172.16.%d.%d", i>>8&255, i&255) }
func podCIDR(i int) string { return fmt.Sprintf("10.%d.%d.0/24", i>>8&255, i&255) }
func podIP(node, slot int) string {
	return fmt.Sprintf("10.%d.%d.%d", node>>8&255, node&255, 2+slot%253)
}
