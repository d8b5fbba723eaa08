package dashboard

import (
	"hash/maphash"
	"net"
	"sync"
	"time"
)

const (
	// shellRate is how many requests a second an address may send for the page's files.
	// shellBurst is how many it may send at once. A page has some 20 files.
	shellRate  = 20
	shellBurst = 100
	// shellPages is how many requests are those of a browser, which may load the page twice
	// at once.
	shellPages = 50
	// shellBuckets is the number of token buckets.
	shellBuckets = 64
)

// rateLimiter bounds the rate of requests from each address by token buckets.
//
// Addresses are hashed to a fixed number of buckets. So a client with many addresses
// costs no memory. The price is that addresses in the same bucket share its tokens.
type rateLimiter struct {
	seed maphash.Seed
	mu   struct {
		sync.Mutex
		buckets [shellBuckets]bucket
	}
}

// bucket is a token bucket. The zero value is full.
type bucket struct {
	// spent is the number of missing tokens at the time at. It falls by shellRate a
	// second.
	spent float64
	at    time.Time
}

func newRateLimiter() *rateLimiter { return &rateLimiter{seed: maphash.MakeSeed()} }

// allow takes a token for an address, with or without port. allowed is false if there is
// none. many says that the address has sent more requests than a browser does.
func (l *rateLimiter) allow(address string) (allowed, many bool) {
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
		return false, true
	}
	b.spent++
	return true, b.spent > shellPages
}
