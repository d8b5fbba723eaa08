package h2

// inflow is a window that the client sends within (RFC 9113, 5.2). What is read
// is given back in halves of the window, so that few frames are needed and a
// client that is waited for always has something left.
type inflow struct {
	size int32
	// left is what the client may send. unsent was given back, but not told yet.
	left, pendingCredit int32
}

func newInflow(size int32) inflow { return inflow{size: size, left: size} }

// take notes n bytes that came. It returns false if they were too many.
func (f *inflow) take(n int) bool {
	if n > int(f.left) {
		return false
	}
	f.left -= int32(n)
	return true
}

// credit gives n bytes back. It returns what to tell the client, or 0.
func (f *inflow) credit(n int) uint32 {
	f.pendingCredit += int32(n)
	if f.pendingCredit == 0 || f.pendingCredit < f.size/2 {
		return 0
	}
	increment := f.pendingCredit
	f.left += increment
	f.pendingCredit = 0
	return uint32(increment)
}

// outflow is a window that the client allows. It may be negative after the client
// has made its initial windows smaller.
type outflow int64

// add returns false if the window becomes larger than allowed.
func (f *outflow) add(n int64) bool {
	*f += outflow(n)
	return *f <= maxWindow
}
