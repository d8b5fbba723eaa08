package upstream

import (
	"context"
	"time"
)

// lookTimeout bounds the questions of LookAtVersion.
const lookTimeout = 30 * time.Second

// LookAtVersion asks the upstream for its version. If the version has changed, LookAtVersion
// also calls Read. Callers at the same time may share a question that begins after their
// calls.
func (u *Upstream) LookAtVersion(ctx context.Context) error {
	_, err := u.version.Answer(ctx)
	return err
}

// lookNow asks for the version, calls Read if it has changed, and returns it.
func (u *Upstream) lookNow(ctx context.Context) (string, error) {
	version, err := u.ReadVersion(ctx)
	if err != nil || version == u.Version() {
		return version, err
	}
	return version, u.Read()
}
