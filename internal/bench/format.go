package bench

import (
	"fmt"
	"time"
)

// formatBytes uses powers of ten and three significant digits.
func formatBytes(n int64) string {
	const units = "kMGTPE"
	if n < 0 {
		return "-" + formatBytes(-n)
	}
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	return formatNumber(value) + " " + units[unit:unit+1] + "B"
}

// formatNumber gives about three significant digits.
func formatNumber(v float64) string {
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

// formatRatio says how many times b is contained in a.
func formatRatio(a, b float64) string {
	if a <= 0 || b <= 0 {
		return "-"
	}
	return formatNumber(a/b) + "x"
}
func bytesOf(v float64) string { return formatBytes(int64(v)) }
func countOf(v float64) string { return fmt.Sprint(int64(v)) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
