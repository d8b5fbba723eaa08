package encode

import (
	"net/http"
	"strings"
)

// Negotiate chooses one of the offered codings by the Accept-Encoding of a request (RFC
// 9110, 12.5.3). The offers stand in order of preference.
//
// A coding is chosen only if the client names it, with a weight above zero and not below
// the weight of identity. The highest weight wins. "*" names no coding, as in Kubernetes; it
// is only the weight of an identity that is not named. Otherwise the answer is Identity,
// even if the client refuses it. Elements that do not follow the grammar are ignored.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.ContentEncodingSupported; compare at each upgrade.
func Negotiate(header http.Header, offered ...Encoding) Encoding {
	lines := header["Accept-Encoding"]
	if len(lines) == 0 {
		return Identity
	}
	accepted := weightsOf(lines)
	least := accepted.identity
	if least == weightUnnamed {
		least = accepted.any
	}
	chosen, most := Identity, 0
	for _, coding := range offered {
		if weight := *accepted.weightOf(string(coding)); weight > most && weight >= least {
			chosen, most = coding, weight
		}
	}
	return chosen
}

// weights are the weights of codings in a header, in thousandths. A coding that is named
// more than once has the lowest of its weights.
type weights struct{ any, identity, gzip, zstd, other int }

const (
	// weightUnnamed is the weight of a coding that the header does not name, and of an
	// element that does not follow the grammar.
	weightUnnamed = -1
	fullWeight    = 1000
)

func weightsOf(lines []string) weights {
	w := weights{weightUnnamed, weightUnnamed, weightUnnamed, weightUnnamed, weightUnnamed}
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			name, parameter, weighed := strings.Cut(element, ";")
			weight := fullWeight
			if weighed {
				weight = parseWeight(strings.Trim(parameter, optionalWhitespace))
			}
			known := w.weightOf(strings.Trim(name, optionalWhitespace))
			if weight != weightUnnamed && (*known == weightUnnamed || weight < *known) {
				*known = weight
			}
		}
	}
	return w
}

// weightOf returns the weight of a coding. All unknown codings share one.
func (w *weights) weightOf(name string) *int {
	switch {
	case name == "*":
		return &w.any
	case strings.EqualFold(name, string(Gzip)):
		return &w.gzip
	case strings.EqualFold(name, string(Zstd)):
		return &w.zstd
	case strings.EqualFold(name, "identity"):
		return &w.identity
	}
	return &w.other
}

// optionalWhitespace is OWS of RFC 9110, 5.6.3.
const optionalWhitespace = " \t"

// parseWeight parses "q=" and a number from 0 to 1 with up to three decimals.
func parseWeight(text string) int {
	if len(text) < len("q=0") || len(text) > len("q=0.000") || text[0]|0x20 != 'q' || text[1] != '=' {
		return weightUnnamed
	}
	number := text[len("q="):]
	if len(number) > 1 && number[1] != '.' {
		return weightUnnamed
	}
	weight, unit := 0, fullWeight
	for i := range len(number) {
		if i == 1 {
			continue
		}
		digit := int(number[i]) - '0'
		if digit < 0 || digit > 9 {
			return weightUnnamed
		}
		weight += digit * unit
		unit /= 10
	}
	if weight > fullWeight {
		return weightUnnamed
	}
	return weight
}
