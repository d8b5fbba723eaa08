package harness

import (
	"errors"
	"time"
)

// ErrNotYet is an error for conditions of Until that have nothing more to say.
var ErrNotYet = errors.New("not yet")

// Bounds of the intervals at which Until polls, which grow.
const (
	pollInterval     = 20 * time.Millisecond
	longPollInterval = 500 * time.Millisecond
)

// Until polls a condition until it returns nil. It returns the condition's last error
// if that takes longer than timeout.
func Until(timeout time.Duration, condition func() error) error {
	deadline := time.Now().Add(timeout)
	for interval := pollInterval; ; interval = min(interval*5/4, longPollInterval) {
		err := condition()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(interval)
	}
}
