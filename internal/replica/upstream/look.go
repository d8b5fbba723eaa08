package upstream

import (
	"context"
	"time"
)

// lookTimeout bounds the questions of LookAtVersion.
const lookTimeout = 30 * time.Second

// LookAtVersion asks the upstream for its version. If it is another one, it reads what the upstream
// serves too. The answer is of a time after the call began.
func (u *Upstream) LookAtVersion(ctx context.Context) error {
	_, err := u.version.Answer(ctx)
	return err
}

// lookNow asks for the version and returns it.
func (u *Upstream) lookNow(ctx context.Context) (string, error) {
	version, err := u.ReadVersion(ctx)
	if err != nil || version == u.Version() {
		return version, err
	}
	return version, u.Read()
}
