package differential

import (
	"bytes"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// An age in a table is a duration of at most two units, the larger one first.
var (
	age     = regexp.MustCompile(`\b(?:\d+[ydhms]){1,2}\b`)
	agePart = regexp.MustCompile(`(\d+)([ydhms])`)
)

// clockTolerance is how much an age may grow between two answers.
const clockTolerance = 5 * time.Second

// sameButAges compares tables that were made at different moments. All but the
// ages must be equal, and the ages must be close.
func sameButAges(a, b []byte) bool {
	agesA, agesB := age.FindAllIndex(a, -1), age.FindAllIndex(b, -1)
	if len(agesA) != len(agesB) {
		return false
	}
	restA, restB := 0, 0
	for i := range agesA {
		atA, atB := agesA[i], agesB[i]
		if !bytes.Equal(a[restA:atA[0]], b[restB:atB[0]]) || !closeAges(a[atA[0]:atA[1]], b[atB[0]:atB[1]]) {
			return false
		}
		restA, restB = atA[1], atB[1]
	}
	return bytes.Equal(a[restA:], b[restB:])
}

// closeAges reports whether two ages are close. Ages in coarse units may differ
// by one unit.
func closeAges(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ageA, unitA := parseAge(a)
	ageB, unitB := parseAge(b)
	tolerance := clockTolerance
	if unit := max(unitA, unitB); unit > tolerance {
		tolerance = unit
	}
	return (ageA - ageB).Abs() <= tolerance
}

// parseAge returns an age and its smallest unit.
func parseAge(text []byte) (total, unit time.Duration) {
	const day = 24 * time.Hour
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": day, "y": 365 * day}
	for _, part := range agePart.FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(part[1]))
		if err != nil {
			return 0, 0
		}
		unit = units[string(part[2])]
		total += time.Duration(n) * unit
	}
	return total, unit
}

func TestSameButAges(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`["a","5s"]`, `["a","9s"]`, true},
		{`["a","5s"]`, `["a","12s"]`, false},
		{`["a","5s"]`, `["a","50s"]`, false},
		{`["a","5s"]`, `["b","5s"]`, false},
		{`["119s"]`, `["2m"]`, true},
		{`["2m"]`, `["2m4s"]`, true},
		{`["9m58s"]`, `["10m"]`, true},
		{`["10m"]`, `["11m"]`, true},
		{`["10m"]`, `["12m"]`, false},
		{`["2y30d"]`, `["2y31d"]`, true},
		{`["2y30d"]`, `["3y30d"]`, false},
		{`["5s (x3 over 1h)"]`, `["6s (x3 over 1h)"]`, true},
		{`["5s (x3 over 1h)"]`, `["5s (x4 over 1h)"]`, false},
		{`["3s"]`, `["<unknown>"]`, false},
		{`["3s","4s"]`, `["3s"]`, false},
		{"- 3s\n", "- 4s\n", true},
		{`["main1s"]`, `["main2s"]`, false},
	} {
		if got := sameButAges([]byte(c.a), []byte(c.b)); got != c.same {
			t.Errorf("%s and %s: same %v, want %v", c.a, c.b, got, c.same)
		}
	}
}
