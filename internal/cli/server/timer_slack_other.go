//go:build !linux

package server

import (
	"log/slog"
	"time"
)

// relaxTimers does nothing on this system.
func relaxTimers(time.Duration, *slog.Logger) {}
