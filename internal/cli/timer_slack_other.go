//go:build !linux

package cli

import (
	"log/slog"
	"time"
)

// relaxTimers does nothing on this system.
func relaxTimers(time.Duration, *slog.Logger) {}
