package apifeed

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A server whose etcd or watch cache stands still sends bookmarks all the same: they repeat a
// revision. A watch over HTTP/2 then stays where it is for as long as the connection lives,
// though a balancer has other servers.
//
// So while a watch sends no new revision, the feed asks for the newest revision. A server
// whose watch cache is sound then sends it within the minute between its bookmarks. If a
// server still sends nothing new, the watch is opened again on another connection.

const (
	// movementPeriod is the mean time between two checks whether the watch has sent anything
	// new.
	movementPeriod = 15 * time.Second
	// questionPeriod is the least time between two questions for the newest revision.
	questionPeriod = 30 * time.Second
	// frozenAfter is how long the newest revision may be ahead of the sink's, or unknown.
	// API servers send a bookmark each minute.
	frozenAfter = 90 * time.Second
	// maxFrozenAfter bounds frozenAfter, which doubles each time when another connection has sent
	// nothing new either. An etcd that cannot report progress has no sound watch cache.
	maxFrozenAfter = 10 * time.Minute
	// maxRetired bounds how many connections are given up for one watch.
	maxRetired = 8
	// retireTimeout bounds the last request on a connection.
	retireTimeout = 5 * time.Second
)

// errFrozen says that a watch stands still.
var errFrozen = errors.New("the watch stands still, and the API server is ahead of it or does not say how far it is")

// movement is what is known of whether a watch stands still. One goroutine uses it.
type movement struct {
	// applied is the revision at the last look. newest is a revision that is ahead of
	// applied. It is 0 if none is known.
	applied, newest int64
	// asked is when the newest revision was last asked for.
	asked time.Time
	// since is since when the newest revision is known to be ahead of applied, or unknown though
	// it was asked for. It is zero if neither is so.
	since time.Time
	// limit is how long that may last: frozenAfter, or a multiple up to maxFrozenAfter.
	limit time.Duration
}

// watchMovement interrupts a watch that stands still, so that the next attempt opens another,
// until the context ends.
func (f *Feed) watchMovement(ctx context.Context) {
	m := movement{limit: frozenAfter}
	for {
		select {
		case <-time.After(movementPeriod/2 + rand.N(movementPeriod)):
		case <-ctx.Done():
			return
		}
		// A feed whose server sends no bookmarks cannot tell quiet from silence.
		if !f.health.Following() || !f.bookmarked.Load() {
			m.since = time.Time{}
			continue
		}
		f.look(ctx, &m)
		if !m.since.IsZero() && time.Since(m.since) > m.limit {
			f.interrupt(errFrozen)
			m.since, m.limit = time.Time{}, min(2*m.limit, maxFrozenAfter)
		}
	}
}

// look compares the applied revision with the newest one, and records the result in m.
func (f *Feed) look(ctx context.Context, m *movement) {
	if applied := f.applied.Load(); applied != m.applied {
		m.applied, m.since = applied, time.Time{}
		if applied >= m.newest {
			m.newest, m.limit = 0, frozenAfter
		}
		return
	}
	if !m.since.IsZero() && m.newest > 0 || time.Since(m.asked) < questionPeriod {
		return
	}
	m.asked = time.Now()
	asking, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	newest, err := f.Newest(asking)
	switch {
	case err == nil && newest < m.applied:
		f.interrupt(f.isBehind(m.applied, newest))
		return
	case err == nil && newest == m.applied:
		m.since, m.newest = time.Time{}, 0
		return
	case err == nil:
		m.newest = newest
	}
	if m.since.IsZero() {
		m.since = m.asked
	}
}

// openWatch opens a watch, on another connection than abandonedConn. It returns errFrozen if it
// gets no such connection.
func (f *Feed) openWatch(ctx context.Context, r *request) (answer *watchAnswer, err error) {
	for range maxRetired {
		resp, err := r.send(ctx)
		if err != nil {
			return nil, err
		}
		if f.abandonedConn == nil || r.conn != f.abandonedConn {
			f.abandonedConn = nil
			return &watchAnswer{resp, r.conn}, nil
		}
		_ = resp.Body.Close()
		f.retire(ctx)
	}
	return nil, errFrozen
}

// retire sends one request, after which its connection serves no other. In a pool of several
// connections that need not be abandonedConn. Requests under way on the connection go on.
func (f *Feed) retire(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, retireTimeout)
	defer cancel()
	r := f.request(f.cfg.URL, url.Values{"limit": {"1"}}, revisionAccept)
	r.last = true
	if resp, err := r.send(ctx); err == nil {
		_ = resp.Body.Close()
	}
	if transport := f.cfg.Client.Transport; transport != nil {
		utilnet.CloseIdleConnectionsFor(transport) // over HTTP/1.1, requests would come to idle connections
	}
}
