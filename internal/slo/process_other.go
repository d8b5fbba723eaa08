//go:build !unix

package slo

import "time"

// processorTime is not told by this system.
func processorTime() time.Duration { return 0 }
