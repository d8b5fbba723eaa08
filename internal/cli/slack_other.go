//go:build !linux

package cli

import "time"

// relaxTimers does nothing on this system.
func relaxTimers(time.Duration) {}
