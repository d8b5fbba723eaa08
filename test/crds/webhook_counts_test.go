package crds

import (
	"net/http"
	"sync"
)

// pathCounts is what a webhook was asked, and how it answers from now on.
type pathCounts struct {
	reviews, objects int
	// fails says that it answers with an error.
	fails bool
	// refuses is the name of an object that it does not convert.
	refuses string
	// gate lets one review pass for each receive, unless it is nil.
	gate chan struct{}
}

// webhookCounts are the counts of paths. The zero value is usable.
type webhookCounts struct {
	mu struct {
		sync.Mutex
		paths map[string]*pathCounts
	}
}

func (c *webhookCounts) pathLocked(path string) *pathCounts {
	if c.mu.paths == nil {
		c.mu.paths = map[string]*pathCounts{}
	}
	if c.mu.paths[path] == nil {
		c.mu.paths[path] = &pathCounts{}
	}
	return c.mu.paths[path]
}

// count counts a review. It answers one that fails, and returns false.
func (c *webhookCounts) count(w http.ResponseWriter, req *http.Request, path string, objects int) bool {
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
func (c *webhookCounts) take(path string) (reviews, objects int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.pathLocked(path)
	reviews, objects = now.reviews, now.objects
	now.reviews, now.objects = 0, 0
	return reviews, objects
}

// set changes how a path answers.
func (c *webhookCounts) set(path string, change func(*pathCounts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.pathLocked(path))
}

// refused is the object that a path does not convert, "" for none.
func (c *webhookCounts) refused(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pathLocked(path).refuses
}
