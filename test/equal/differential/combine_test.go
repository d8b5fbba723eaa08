package differential

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// combination is one way to send a plain GET or LIST. Its values are indexes
// into dimensions.
type combination [5]int

const (
	tableForm = "application/json;as=Table;g=meta.k8s.io;v=v1"
	protobuf  = "application/vnd.kubernetes.protobuf"
)

// dimensions are the values of Accept, Accept-Encoding, User-Agent,
// resourceVersion and pretty. LIST stands for "List" in requests for lists and
// for nothing in others, NOW for the current revision.
var dimensions = [5][]string{
	{
		"", "*/*", "application/json", protobuf, protobuf + ",application/json", "application/json," + protobuf,
		"application/yaml", tableForm, tableForm + ",application/json",
		"application/json;as=PartialObjectMetadataLIST;g=meta.k8s.io;v=v1,application/json",
		protobuf + ";as=PartialObjectMetadataLIST;g=meta.k8s.io;v=v1",
		"text/html", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		"application/json;q=0.1," + protobuf + ";q=0.9", "application/*", "application/cbor", "application/json;pretty=1",
	},
	{"", "gzip", "gzip, deflate", "gzip;q=0", "deflate, gzip;q=1.0, *;q=0.5", "identity", "identity, gzip;q=0.5", "gzip, gzip;q=0"},
	{"", "curl/8.5.0", "Mozilla/5.0 (X11)", "kubectl/v1.36.3"},
	{"", "0", "NOW", "7"},
	{"", "1", "true", "false", "0", "yes"},
}

// allPairs returns combinations in which every two values of different
// dimensions occur together. It chooses them greedily.
func allPairs(random *rand.Rand) []combination {
	type pairing struct{ d1, v1, d2, v2 int }
	open := map[pairing]bool{}
	for d1 := range dimensions {
		for d2 := d1 + 1; d2 < len(dimensions); d2++ {
			for v1 := range dimensions[d1] {
				for v2 := range dimensions[d2] {
					open[pairing{d1, v1, d2, v2}] = true
				}
			}
		}
	}
	closes := func(c combination, close bool) (n int) {
		for d1 := range c {
			for d2 := d1 + 1; d2 < len(c); d2++ {
				p := pairing{d1, c[d1], d2, c[d2]}
				if open[p] {
					n++
				}
				if close {
					delete(open, p)
				}
			}
		}
		return n
	}
	const candidates = 60
	var all []combination
	for len(open) > 0 {
		var best combination
		most := 0
		for range candidates {
			var c combination
			for d := range c {
				c[d] = random.IntN(len(dimensions[d]))
			}
			if n := closes(c, false); n > most {
				best, most = c, n
			}
		}
		if most > 0 {
			closes(best, true)
			all = append(all, best)
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// apply sets the headers and parameters of a combination in r.
func (c combination) apply(r request, list bool, now int64) request {
	word := ""
	if list {
		word = "List"
	}
	value := func(d int) string { return dimensions[d][c[d]] }
	r.accept = strings.ReplaceAll(value(0), "LIST", word)
	r.encoding, r.agent = value(1), value(2)
	if rv := strings.ReplaceAll(value(3), "NOW", strconv.FormatInt(now, 10)); rv != "" {
		r.query = and(r.query, "resourceVersion="+rv)
	}
	if pretty := value(4); pretty != "" {
		r.query = and(r.query, "pretty="+pretty)
	}
	return r
}

func and(query, parameter string) string {
	if query == "" {
		return parameter
	}
	return query + "&" + parameter
}
