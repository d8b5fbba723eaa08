package usage

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// A request that was passed on is logged if it reaches one of these costs.
	minLoggedBytes = 8 << 20
	minLoggedCPU   = 0.5
	// passedOnLogPeriod is the time between two lines.
	passedOnLogPeriod = 10 * time.Second
)

// passedOnLog logs expensive requests that were passed on, one line in passedOnLogPeriod at
// most.
type passedOnLog struct {
	logger *slog.Logger
	// last is the time of the newest line, in Unix nanoseconds.
	last atomic.Int64
}

// observe logs a request that was passed on, if it is expensive and a line is due.
func (l *passedOnLog) observe(now time.Time, r *Request) {
	if r.Cost.Bytes < minLoggedBytes && r.Cost.CPU < minLoggedCPU {
		return
	}
	last := l.last.Load()
	if now.UnixNano()-last < int64(passedOnLogPeriod) || !l.last.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	l.logger.Info("Large "+strings.ToUpper(r.Shape.Verb)+" was passed on to Kubernetes' handler: it costs many times what one from bytes does",
		"user", r.Client.User, "userAgent", r.Client.UserAgent, "resource", r.Shape.Resource, "version", r.Shape.Version,
		"scope", r.Shape.Scope, "selectors", r.Shape.Selectors, "revision", r.Shape.Revision, "limit", r.Shape.Limit, "encoding", r.Shape.Encoding,
		"reason", r.Shape.Reason, "bytes", r.Cost.Bytes, "seconds", r.Cost.Seconds)
}
