package crds

import (
	"net/http"
	"sync"
)

// pathCounts has the requests of one path of a webhook, and how the webhook answers them.
type pathCounts struct {
	reviews, objects int
	// fails has requests answered with an error.
	fails bool
	// refuses is the name of an object that is not converted.
	refuses string
	// gate holds up reviews until they receive from it, unless it is nil.
	gate chan struct{}
}

// webhookCounts has the counts of all paths. The zero value is usable.
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

// count counts a review. If the review is to fail, count answers it and returns false.
func (c *webhookCounts) count(w http.ResponseWriter, req *http.Request, path string, objects int) bool {
	c.mu.Lock()
	counts := c.pathLocked(path)
	counts.reviews++
	counts.objects += objects
	fails, gate := counts.fails, counts.gate
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

// take returns the counts since it was last called.
func (c *webhookCounts) take(path string) (reviews, objects int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.pathLocked(path)
	reviews, objects = counts.reviews, counts.objects
	counts.reviews, counts.objects = 0, 0
	return reviews, objects
}

// set changes how the webhook answers a path.
func (c *webhookCounts) set(path string, change func(*pathCounts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.pathLocked(path))
}

// refused returns the name of the object that is not converted, or "".
func (c *webhookCounts) refused(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pathLocked(path).refuses
}
