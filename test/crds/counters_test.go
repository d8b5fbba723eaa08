package crds

import (
	"net/http"
	"sync"
)

// count is what a webhook was asked, and how it answers from now on.
type count struct {
	reviews, objects int
	// fails says that it answers with an error.
	fails bool
	// refuses is the name of an object that it does not convert.
	refuses string
	// gate lets one review pass for each receive, unless it is nil.
	gate chan struct{}
}

// counters are the counts of paths. The zero value is usable.
type counters struct {
	mu struct {
		sync.Mutex
		paths map[string]*count
	}
}

func (c *counters) pathLocked(path string) *count {
	if c.mu.paths == nil {
		c.mu.paths = map[string]*count{}
	}
	if c.mu.paths[path] == nil {
		c.mu.paths[path] = &count{}
	}
	return c.mu.paths[path]
}

// count counts a review. It answers one that fails, and returns false.
func (c *counters) count(w http.ResponseWriter, req *http.Request, path string, objects int) bool {
	c.mu.Lock()
	now := c.pathLocked(path)
	now.reviews++
	now.objects += objects
	fails, gate := now.fails, now.gate
	c.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-req.Context().Done():
			return false
		}
	}
	if fails {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return false
	}
	return true
}

// take returns what was counted since the last time.
func (c *counters) take(path string) (reviews, objects int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.pathLocked(path)
	reviews, objects = now.reviews, now.objects
	now.reviews, now.objects = 0, 0
	return reviews, objects
}

// set changes how a path answers.
func (c *counters) set(path string, change func(*count)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.pathLocked(path))
}

// refused is the object that a path does not convert, "" for none.
func (c *counters) refused(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pathLocked(path).refuses
}
