//go:build !unix

package server

import "time"

// processCPU returns nil: it is not known on this system.
func processCPU() func() time.Duration { return nil }
