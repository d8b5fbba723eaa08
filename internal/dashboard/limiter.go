package dashboard

import (
	"hash/maphash"
	"net"
	"sync"
	"time"
)

const (
	// shellRate is how many requests a second an address may send for the page's files,
	// for as long as it likes, and shellBurst how many at once. A page is some 20 files.
	shellRate  = 20
	shellBurst = 100
	// shellBuckets is over how many token buckets addresses are spread.
	shellBuckets = 64
)

// limiter bounds the rate of requests from each address. It has a fixed number of token
// buckets, so that a client with many addresses costs no memory: it takes a share of the
// tokens of others that are in the same bucket.
type limiter struct {
	seed maphash.Seed
	mu   struct {
		sync.Mutex
		buckets [shellBuckets]bucket
	}
}

// bucket is full when it was never asked.
type bucket struct {
	// spent tokens come back with the time from at.
	spent float64
	at    time.Time
}

func newLimiter() *limiter { return &limiter{seed: maphash.MakeSeed()} }

// allow takes a token of an address, which may have a port. It returns false if there is
// none.
func (l *limiter) allow(address string) bool {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.mu.buckets[maphash.String(l.seed, address)%shellBuckets]
	b.spent = max(0, b.spent-shellRate*now.Sub(b.at).Seconds())
	b.at = now
	if b.spent+1 > shellBurst {
		return false
	}
	b.spent++
	return true
}
