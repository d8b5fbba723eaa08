package testbed

import (
	"math"
	"syscall"
)

// FileLimit returns how many files this process may have open. It returns math.MaxInt if the
// kernel does not say so.
func FileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	return int(min(limit.Cur, math.MaxInt))
}
