// Package ratelimit bounds how often each of any number of clients may do something, in memory
// of a fixed size. It is for clients that nobody vouches for. ClientOf names them by address.
//
// It is not for clients that must not be slowed down by others: clients may share a bucket.
package ratelimit

import (
	"hash/maphash"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Config configures Limiter. All fields are needed.
type Config struct {
	// Rate is how many tokens a client gets each second, and Burst how many it has at most.
	Rate, Burst float64
	// Buckets is the number of token buckets, at least 1.
	Buckets int
}

// Limiter bounds the rate of each client by token buckets. It is safe for concurrent use.
//
// Clients are hashed to a fixed number of buckets. So a client with many names costs no
// memory. The price is that clients in the same bucket share its tokens.
type Limiter struct {
	cfg  Config
	seed maphash.Seed
	mu   struct {
		sync.Mutex
		buckets []bucket
	}
}

// bucket is a token bucket. The zero value is full.
type bucket struct {
	// spent is the number of missing tokens at the time at. It falls by Config.Rate a
	// second.
	spent float64
	at    time.Time
}

// New makes a Limiter.
func New(cfg Config) *Limiter {
	l := &Limiter{cfg: cfg, seed: maphash.MakeSeed()}
	l.mu.buckets = make([]bucket, cfg.Buckets)
	return l
}

// Take takes a token of a client. It returns false if there is none. spent is the number of tokens
// missing from the client's bucket after the call.
func (l *Limiter) Take(client string) (spent float64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.refillLocked(client)
	if b.spent+1 > l.cfg.Burst {
		return b.spent, false
	}
	b.spent++
	return b.spent, true
}

// Has reports whether Take would take a token of a client.
func (l *Limiter) Has(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refillLocked(client).spent+1 <= l.cfg.Burst
}

// Return gives a token back that Take has taken.
func (l *Limiter) Return(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.refillLocked(client)
	b.spent = max(0, b.spent-1)
}

// refillLocked returns a client's bucket with the tokens that it has now.
func (l *Limiter) refillLocked(client string) *bucket {
	b := &l.mu.buckets[maphash.String(l.seed, client)%uint64(len(l.mu.buckets))]
	now := time.Now()
	b.spent = max(0, b.spent-l.cfg.Rate*now.Sub(b.at).Seconds())
	b.at = now
	return b
}

// clientBits is the length of the prefix of an IPv6 address that names a client. A client that
// has one address of such a network can use all of them.
const clientBits = 64

// ClientOf returns the name of the client at remote, which may have a port. The name is
// its IPv4 address, the /64 of its IPv6 address, or the host of remote if it is
// neither.
func ClientOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	address, err := netip.ParseAddr(remote)
	if err != nil {
		return remote
	}
	if address = address.Unmap(); address.Is4() {
		return address.String()
	}
	network, _ := address.WithZone("").Prefix(clientBits) // 64 is a valid length
	return network.String()
}
