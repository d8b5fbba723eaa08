package openapi

import (
	"sync"
	"time"
)

// modifiedTimes has for each document the time at which its content was first asked for. The
// zero value is empty.
type modifiedTimes struct {
	mu struct {
		sync.Mutex
		byPath map[string]modifiedTime
	}
}

// modifiedTime is the time of the content that tag identifies.
type modifiedTime struct {
	tag  string
	time time.Time
}

// get returns the time of a document with this tag: now, if the document had another tag.
func (d *modifiedTimes) get(path, tag string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.byPath == nil {
		d.mu.byPath = map[string]modifiedTime{}
	}
	if found := d.mu.byPath[path]; found.tag == tag {
		return found.time
	}
	d.mu.byPath[path] = modifiedTime{tag, time.Now()}
	return d.mu.byPath[path].time
}
