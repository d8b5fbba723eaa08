//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Reader returns a function that returns the CPU time that this process has used. It returns nil
// on systems that do not report that time.
func Reader() func() time.Duration {
	return func() time.Duration {
		var used syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails only for wrong arguments
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
}
