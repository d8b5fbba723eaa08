//go:build unix

package server

import (
	"syscall"
	"time"
)

// processCPU returns what tells the processor time that this process has used.
func processCPU() func() time.Duration {
	return func() time.Duration {
		var used syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails for wrong arguments alone
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
}
