//go:build unix

package server

import (
	"syscall"
	"time"
)

// processCPU returns a function that returns the CPU time this process has used,
// in user mode and in the kernel.
func processCPU() func() time.Duration {
	return func() time.Duration {
		var used syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails only for wrong arguments
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
}
