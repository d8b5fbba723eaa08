package verify

import (
	"cmp"
	"context"
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
	// Timeout bounds a request, and the start of a watch: 15 s if it is 0. Whether a write
	// that takes longer has happened is not known.
	Timeout time.Duration
	// ReadPause is between two requests of a reader: 5 ms if it is 0.
	ReadPause time.Duration
	// Settle is how long all servers may take to show the last write, and one of them to
	// acknowledge it: 30 s if it is 0.
	Settle time.Duration
	// Meanwhile, if it is set, runs beside the clients, and its context ends with them. The
	// last write waits for its return.
	Meanwhile func(context.Context)
	// Target are the flags that name the servers, for the report: "" or as in " --server URL".
	Target string
	// Progress receives lines that say how far the run is. Nil means none.
	Progress io.Writer
}

// Bounds of a Config. A history is kept in memory, and checks take longer than in proportion
// to it.
const (
	maxDuration = time.Hour
	maxKeys     = 1000
	maxRate     = 1_000_000
)

const (
	defaultTimeout   = 15 * time.Second
	defaultReadPause = 5 * time.Millisecond
	defaultSettle    = 30 * time.Second
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
	case c.Timeout < 0 || c.ReadPause < 0 || c.Settle < 0:
		return fmt.Errorf("a request timeout of %s, a pause of %s and %s for the last write: give positive ones", c.Timeout, c.ReadPause, c.Settle)
	}
	c.Timeout, c.ReadPause, c.Settle = cmp.Or(c.Timeout, defaultTimeout), cmp.Or(c.ReadPause, defaultReadPause), cmp.Or(c.Settle, defaultSettle)
	return nil
}
