package fill

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSize returns the number of bytes that a text such as 17KB means. The unit is optional,
// and its case does not matter: B, K or KB (1000), Ki or KiB (1024), M or MB, Mi or MiB.
func ParseSize(s string) (int, error) {
	digits := strings.TrimRight(strings.TrimSpace(s), "bBkKmMiI")
	unit := strings.ToLower(strings.TrimSpace(s)[len(digits):])
	digits = strings.TrimSpace(digits)
	var factor float64
	switch unit {
	case "", "b":
		factor = 1
	case "k", "kb":
		factor = 1e3
	case "ki", "kib":
		factor = 1 << 10
	case "m", "mb":
		factor = 1e6
	case "mi", "mib":
		factor = 1 << 20
	default:
		return 0, fmt.Errorf("unknown unit in size %q: write bytes like 4000, 4KB, 17KB or 1MB", s)
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(n >= 0 && n*factor < 1<<31) {
		return 0, fmt.Errorf("size %q is not a number of bytes: write it like 4000, 4KB, 17KB or 1MB", s)
	}
	return int(n * factor), nil
}

// sizeFlag is a command-line flag whose value is a number of bytes.
type sizeFlag struct{ bytes *int }

func (f sizeFlag) String() string {
	if f.bytes == nil || *f.bytes == 0 {
		return ""
	}
	if *f.bytes%1000 == 0 {
		return strconv.Itoa(*f.bytes/1000) + "KB"
	}
	return strconv.Itoa(*f.bytes)
}

func (f sizeFlag) Set(s string) error {
	n, err := ParseSize(s)
	if err != nil {
		return err
	}
	*f.bytes = n
	return nil
}

func (f sizeFlag) Type() string { return "size" }
