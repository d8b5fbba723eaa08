package apifeed

import "sync"

// confirmation says whether the server is known to have the history that the sink has. The
// zero value says that it is not.
type confirmation struct {
	mu struct {
		sync.Mutex
		confirmed bool
		// changed is closed when confirmed becomes true. It is nil while nobody waits.
		changed chan struct{}
	}
}

func (c *confirmation) set(confirmed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.confirmed = confirmed
	if confirmed && c.mu.changed != nil {
		close(c.mu.changed)
		c.mu.changed = nil
	}
}

func (c *confirmation) is() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.confirmed
}

// wait returns a channel that is closed when the history is confirmed. It returns nil if
// the history is confirmed already.
func (c *confirmation) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.confirmed {
		return nil
	}
	if c.mu.changed == nil {
		c.mu.changed = make(chan struct{})
	}
	return c.mu.changed
}
