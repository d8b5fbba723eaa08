package usage

import (
	"strings"
	"time"
)

const (
	// A passed-on request is worth a line from one of these on, but one line in
	// tellPeriod for all is enough.
	largeBytes = 8 << 20
	largeCPU   = 0.5
	tellPeriod = 10 * time.Second
)

// tellPassedOn logs who asks for what in a form that costs much.
func (l *Accounts) tellPassedOn(now time.Time, r *Request) {
	if r.Cost.Bytes < largeBytes && r.Cost.CPU < largeCPU {
		return
	}
	last := l.shown.Load()
	if now.UnixNano()-last < int64(tellPeriod) || !l.shown.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	l.cfg.Logger.Info("Large "+strings.ToUpper(r.Shape.Verb)+" was passed on to Kubernetes' handler: it costs many times what one from bytes does",
		"user", r.Client.User, "userAgent", r.Client.UserAgent, "resource", r.Shape.Resource, "version", r.Shape.Version,
		"scope", r.Shape.Scope, "selectors", r.Shape.Selectors, "revision", r.Shape.Revision, "limit", r.Shape.Limit, "encoding", r.Shape.Encoding,
		"reason", r.Shape.Reason, "bytes", r.Cost.Bytes, "seconds", r.Cost.Seconds)
}
