//go:build !unix

package cputime

import "time"

// Reader returns nil: this system does not report CPU time.
func Reader() func() time.Duration { return nil }
