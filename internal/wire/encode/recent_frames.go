package encode

import "sync"

// RecentFrames keeps the newest frames of a process alive, so that watches that are a
// moment late do not encode them again. It is a queue: the oldest frames leave when the
// bytes exceed the limit. Compressed segments of a frame are not counted.
//
// A nil RecentFrames keeps none. The lock is a leaf.
type RecentFrames struct {
	// limit is in bytes.
	limit int
	mu    struct {
		sync.Mutex
		frames []*Frame
		bytes  int
	}
}

// NewRecentFrames makes a queue of up to limit bytes.
func NewRecentFrames(limit int64) *RecentFrames { return &RecentFrames{limit: int(limit)} }

// Release drops all frames. The server calls it when it is quiet (memory.Trimmer), so that few
// watches are late.
func (r *RecentFrames) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.frames, r.mu.bytes = nil, 0
}

// keep adds a frame, unless it alone would take more than a quarter of the room.
func (r *RecentFrames) keep(f *Frame) {
	if r == nil || len(f.bytes) > r.limit/4 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.frames = append(r.mu.frames, f)
	r.mu.bytes += len(f.bytes)
	drop := 0
	for ; r.mu.bytes > r.limit; drop++ {
		r.mu.bytes -= len(r.mu.frames[drop].bytes)
		r.mu.frames[drop] = nil
	}
	r.mu.frames = r.mu.frames[drop:]
	r.checkLocked()
}
