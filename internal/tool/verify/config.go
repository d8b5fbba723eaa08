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

// Config configures a run. The fields up to Keys must be set.
type Config struct {
	// Servers are clients of the servers to verify. All are servers of one cluster, or
	// replicas in front of it.
	Servers []*rest.Config
	// Duration is how long writers, readers and watchers run.
	Duration time.Duration
	// Writers, Readers and Watchers are the numbers of concurrent clients.
	Writers, Readers, Watchers int
	// Rate is the number of writes per second, of all writers together.
	Rate float64
	// Keys is the number of names that the objects of each resource have.
	Keys int
	// Seed decides what each client requests. Two runs with one seed draw the same requests,
	// as long as they get the same answers.
	Seed uint64
	// Version is the version of Millrace, for the report.
	Version string
	// Timeout bounds a request, and the start of a watch: 15 s if it is 0. A write that takes
	// longer has an unknown outcome.
	Timeout time.Duration
	// ReadPause is the time between two requests of a reader: 5 ms if it is 0.
	ReadPause time.Duration
	// Settle is how long one server may take to acknowledge the last write: 30 s if it is 0.
	// After that all servers may take as long again to show it.
	Settle time.Duration
	// Meanwhile, if it is set, runs beside the clients, and its context ends with them. The
	// last write waits until Meanwhile has returned.
	Meanwhile func(context.Context)
	// Target has the flags that name the servers, for the report: "" or as in " --server URL".
	Target string
	// Progress receives lines that say how far the run is. Nil means none.
	Progress io.Writer
}

// Bounds of a Config. The record of a run is kept in memory, and the time of checks grows
// faster than its size.
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

// validate returns an error for a value that is out of bounds. It replaces zero by defaults.
func (c *Config) validate() error {
	switch {
	case len(c.Servers) == 0:
		return errors.New("no server to verify")
	case c.Duration <= 0 || c.Duration > maxDuration:
		return fmt.Errorf("the duration is %s: give up to %s", c.Duration, maxDuration)
	case c.Writers < 1 || c.Readers < 1 || c.Watchers < 1:
		return fmt.Errorf("%d writers, %d readers and %d watchers: at least one of each has to run", c.Writers, c.Readers, c.Watchers)
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("%d names: give a number from 1 to %d", c.Keys, maxKeys)
	case !(c.Rate > 0 && c.Rate <= maxRate):
		return fmt.Errorf("%g writes per second: give a rate above 0, up to %d", c.Rate, maxRate)
	case c.Timeout < 0 || c.ReadPause < 0 || c.Settle < 0:
		return fmt.Errorf("a request timeout of %s, a pause of %s and %s for the last write: give positive durations",
			c.Timeout, c.ReadPause, c.Settle)
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.ReadPause = cmp.Or(c.ReadPause, defaultReadPause)
	c.Settle = cmp.Or(c.Settle, defaultSettle)
	return nil
}
