package encode

import (
	"net/http"
	"strings"
)

// Negotiate chooses the coding of an answer out of those that are offered, the
// preferred ones first, by the Accept-Encoding of a request (RFC 9110, 12.5.3).
//
// A coding is chosen only if the client names it with a weight above zero, and no lower
// than that of identity. The highest weight wins. "*" asks for no coding, as in Kubernetes;
// it only weighs an identity that is not named. Identity is the answer to everything else,
// also to clients that refuse it. What does not follow the grammar is ignored.
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
		if weight := *accepted.of(string(coding)); weight > most && weight >= least {
			chosen, most = coding, weight
		}
	}
	return chosen
}

// weights are what a header says of the codings that are known here, in thousandths.
// That of a coding that is named more than once is the lowest.
type weights struct{ any, identity, gzip, zstd, other int }

const (
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
			known := w.of(strings.Trim(name, optionalWhitespace))
			if weight != weightUnnamed && (*known == weightUnnamed || weight < *known) {
				*known = weight
			}
		}
	}
	return w
}

func (w *weights) of(name string) *int {
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

const optionalWhitespace = " \t"

// parseWeight reads "q=" and a number from 0 to 1 with up to three decimals.
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
