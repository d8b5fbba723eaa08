package display

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the greatest length of a displayed name, in characters.
const maxName = 120

// Clean returns text from a client in a form that is safe to print. It escapes all characters
// that are not printable, so that a name cannot send control sequences to the terminal. It also
// cuts the text to maxName characters.
func Clean(name string) string {
	var b strings.Builder
	n := 0
	for i, r := range name {
		if n++; n > maxName {
			b.WriteString("…")
			break
		}
		_, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, name[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// threeDigits formats a number below 1000 with at most three digits.
func threeDigits(x float64) string {
	switch {
	case x < 0.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 9.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(math.Round(x), 'f', 0, 64)
}

// Seconds formats a duration in seconds with a suitable unit, as in "1.5ms" and "2h03m".
func Seconds(s float64) string {
	switch {
	case s <= 0:
		return "0"
	case s < 0.9995e-3:
		return fmt.Sprintf("%.0fµs", max(1, s*1e6))
	case s < 0.9995:
		return threeDigits(s*1e3) + "ms"
	case s < 59.5:
		return threeDigits(s) + "s"
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", int(s)/60, int(s)%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", int(s)/3600, int(s)%3600/60)
	}
	return fmt.Sprintf("%dd%02dh", int(s)/86400, int(s)%86400/3600)
}

// formatScaled formats a number with one of the units, each of which is 1000 of the one before.
func formatScaled(n float64, units []string) string {
	i := 0
	for n >= 999.5 && i < len(units)-1 {
		n /= 1000
		i++
	}
	if i == 0 {
		return strconv.FormatFloat(math.Round(n), 'f', 0, 64) + units[0]
	}
	return threeDigits(n) + units[i]
}

// Size formats bytes in decimal units, as in "1.5MB".
func Size[N int64 | uint64 | float64](n N) string {
	return formatScaled(float64(n), []string{"B", "kB", "MB", "GB", "TB", "PB"})
}

// Plural formats a number of things whose plural takes an s, as in "1 node" and "2 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Count formats a number, in decimal units from 100,000 on.
func Count[N int | int64 | uint64 | float64](n N) string {
	if float64(n) < 99_999.5 {
		return strconv.FormatFloat(math.Round(float64(n)), 'f', 0, 64)
	}
	return formatScaled(float64(n), []string{"", "k", "M", "G", "T"})
}

// Percent formats a fraction of 1 as a percentage.
func Percent(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) }

// BurnRate formats the burn rate of an error budget. At a rate of 1 the budget lasts exactly
// as long as its period.
func BurnRate(x float64) string {
	if x == 0 {
		return "0"
	}
	return threeDigits(x)
}
