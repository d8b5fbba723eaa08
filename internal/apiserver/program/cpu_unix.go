//go:build unix

package program

import (
	"syscall"
	"time"
)

// processCPU returns a function that measures the CPU time that this process has used, in
// user mode and in the kernel. It returns nil on systems that do not tell.
func processCPU() func() time.Duration {
	return func() time.Duration {
		var used syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails only for wrong arguments
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
}
