// Package stack grows the stacks of goroutines that serve one request each, while
// they are at its beginning and there is little to copy. Go begins with some
// kilobytes and doubles them when they are full, and looks at each of the forty to
// sixty frames that Kubernetes' handlers are deep then: grown late, a write's stacks
// are a tenth of its CPU.
package stack

// GrowHalf makes a stack of 8 KiB, as much as a request takes until its filters have
// begun. The argument is any number, or the compiler would see that nobody needs the
// room.
//
//go:noinline
func GrowHalf(i uint) byte {
	var room [5 << 10]byte
	return room[i%uint(len(room))]
}

// Grow makes one of 16 KiB, the largest that the runtime keeps ready, and as much as a
// GET takes.
//
//go:noinline
func Grow(i uint) byte {
	var room [9 << 10]byte
	return room[i%uint(len(room))]
}

// GrowTwice makes one of 32 KiB, which a write takes.
//
//go:noinline
func GrowTwice(i uint) byte {
	var room [17 << 10]byte
	return room[i%uint(len(room))]
}
