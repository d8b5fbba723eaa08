package render

import (
	"fmt"
	"time"
)

// FormatBytes formats a number of bytes with three significant digits: "39.8 MB". Units are
// powers of ten.
func FormatBytes(n int64) string {
	const units = "kMGTPE"
	if n < 0 {
		return "-" + FormatBytes(-n)
	}
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value := float64(n) / 1000
	unit := 0
	for value >= 999.5 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	return FormatNumber(value) + " " + units[unit:unit+1] + "B"
}

// FormatNumber formats a number with about three significant digits.
func FormatNumber(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.9995 || v == 0:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// FormatRatio formats a/b, as in "2.50x". It returns "-" unless both are above zero.
func FormatRatio(a, b float64) string {
	if a <= 0 || b <= 0 {
		return "-"
	}
	return FormatNumber(a/b) + "x"
}

// FormatByteCount is FormatBytes for a column of floats.
func FormatByteCount(v float64) string { return FormatBytes(int64(v)) }

// FormatCount formats a whole number in a column of floats.
func FormatCount(v float64) string { return fmt.Sprint(int64(v)) }

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
