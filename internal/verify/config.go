package verify

import (
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"
)

// Config of a run.
type Config struct {
	// Servers are clients of the servers to verify. All are servers of one cluster, or
	// replicas in front of it.
	Servers []*rest.Config
	// Duration is how long writers, readers and watchers run.
	Duration time.Duration
	// Writers, Readers and Watchers are how many of each run at once.
	Writers, Readers, Watchers int
	// Rate is how many writes a second all writers send together.
	Rate float64
	// Keys is how many names the objects of each resource have.
	Keys int
	// Seed decides what is requested. Two runs with one seed send the same requests, as far
	// as the answers are the same.
	Seed uint64
	// Version is Millrace's, for the report.
	Version string
	// Progress receives a line a second, or one that is overwritten if Overwrite is set.
	Progress  io.Writer
	Overwrite bool
}

// Bounds of a Config. A history is kept in memory, and checks take longer than in proportion
// to it.
const (
	maxDuration = time.Hour
	maxKeys     = 1000
	maxRate     = 1_000_000
)

func (c *Config) validate() error {
	switch {
	case len(c.Servers) == 0:
		return errors.New("no server to verify")
	case c.Duration <= 0 || c.Duration > maxDuration:
		return fmt.Errorf("the duration is %s: give one up to %s", c.Duration, maxDuration)
	case c.Writers < 1 || c.Readers < 1 || c.Watchers < 1:
		return fmt.Errorf("%d writers, %d readers and %d watchers: at least one of each has to run", c.Writers, c.Readers, c.Watchers)
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("%d names: give a number from 1 to %d", c.Keys, maxKeys)
	case !(c.Rate > 0 && c.Rate <= maxRate):
		return fmt.Errorf("%g writes a second: give a rate above 0, up to %d", c.Rate, maxRate)
	}
	return nil
}
