package upstream

import (
	"context"
	"sync"
	"time"
)

// lookTimeout bounds the questions of LookAtVersion.
const lookTimeout = 30 * time.Second

// looks are the questions for the version. One answers all calls that came before it was asked.
type looks struct {
	mu struct {
		sync.Mutex
		// running says that one is being asked. next is for calls that came too late for it.
		running bool
		next    *look
	}
}

type look struct {
	done chan struct{}
	// err may be read once done is closed.
	err error
}

// LookAtVersion asks the upstream for its version. If it is another one, it reads what the upstream
// serves too. The answer is of a time after the call began.
func (u *Upstream) LookAtVersion(ctx context.Context) error {
	l := u.joinLook()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (u *Upstream) joinLook() *look {
	u.looks.mu.Lock()
	defer u.looks.mu.Unlock()
	if u.looks.mu.next == nil {
		u.looks.mu.next = &look{done: make(chan struct{})}
	}
	l := u.looks.mu.next
	if !u.looks.mu.running {
		u.looks.mu.running, u.looks.mu.next = true, nil
		go u.runLooks(l)
	}
	return l
}

// runLooks asks, and again while calls came meanwhile.
func (u *Upstream) runLooks(l *look) {
	for l != nil {
		l.err = u.lookNow()
		close(l.done)
		u.looks.mu.Lock()
		l = u.looks.mu.next
		u.looks.mu.running, u.looks.mu.next = l != nil, nil
		u.looks.mu.Unlock()
	}
}

func (u *Upstream) lookNow() error {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	version, err := u.ReadVersion(ctx)
	if err != nil || version == u.Version() {
		return err
	}
	return u.Read()
}
