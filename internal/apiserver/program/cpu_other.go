//go:build !unix

package program

import "time"

// processCPU returns nil: the time is not known on this system.
func processCPU() func() time.Duration { return nil }
