package agentprofile

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Duration is a time that YAML has as 30s or 5m. The zero value means the default of its field.
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s is no time: write it as in 30s", text)
	}
	parsed, err := parseDuration(s)
	*d = Duration(parsed)
	return err
}

// Range is a time between two bounds, which YAML has as 5m-10m. One time alone, such as 30s, means
// 10 % less to 10 % more: programs of a fleet do not act at the same moment. The zero value means
// that the field is not set.
type Range struct{ Min, Max time.Duration }

// defaultTimeout is the timeout of client-go's watches.
var defaultTimeout = Range{5 * time.Minute, 10 * time.Minute}

// isZero reports whether the range is not set.
func (r Range) isZero() bool { return r.Max == 0 }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Range) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s is no time: write it as in 30s or 5m-10m", text)
	}
	first, second, isRange := strings.Cut(s, "-")
	low, err := parseDuration(first)
	if err != nil {
		return err
	}
	if !isRange {
		*r = Range{low - low/10, low + low/10}
		return nil
	}
	high, err := parseDuration(second)
	if err != nil {
		return err
	}
	if high < low {
		return fmt.Errorf("%s: the second time is shorter than the first", s)
	}
	*r = Range{low, high}
	return nil
}

// Choose returns the time between the bounds at a fraction from 0, for Min, to 1, for Max.
func (r Range) Choose(fraction float64) time.Duration {
	return r.Min + time.Duration(fraction*float64(r.Max-r.Min))
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no time: write it as in 500ms, 30s or 5m", s)
	}
	return d, nil
}
