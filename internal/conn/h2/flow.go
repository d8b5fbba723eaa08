package h2

// inflow is a flow-control window for bytes from the client (RFC 9113, 5.2). Credit is
// announced once it amounts to half of the window. So few WINDOW_UPDATE frames are
// needed, and a client that is read promptly always has some window left.
type inflow struct {
	size int32
	// left is how many bytes the client may still send. pendingCredit is credit that has
	// not been announced.
	left, pendingCredit int32
}

func newInflow(size int32) inflow { return inflow{size: size, left: size} }

// take counts n bytes that came. It returns false if they exceed the window.
func (f *inflow) take(n int) bool {
	if n > int(f.left) {
		return false
	}
	f.left -= int32(n)
	return true
}

// credit gives back n bytes. It returns the increment to announce now, which may be 0.
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

// outflow is a flow-control window for bytes to the client. It becomes negative if the
// client lowers its initial window size while data is under way.
type outflow int64

// add enlarges the window. It returns false if it exceeds the allowed maximum.
func (f *outflow) add(n int64) bool {
	*f += outflow(n)
	return *f <= maxWindow
}
