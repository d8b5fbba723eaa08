// Package growstack grows the stack of a goroutine early. A goroutine begins with a few
// kilobytes of stack. The runtime doubles a full stack by copying it, and has to examine
// each frame. Kubernetes' handlers are forty to sixty frames deep, and each request has
// new goroutines: growing their stacks late took a tenth of a write's CPU. Grown at the
// beginning of a request, a stack has little to copy.
//
// A function here is called at the beginning of a goroutine that a request starts. It must not
// be used for goroutines that live long: stacks shrink only in a garbage collection.
package growstack

// GrowHalf makes the stack 8 KiB large, which is what a request takes before its filters.
// The argument may be any number. It makes the compiler believe that the array is used.
//
//go:noinline
func GrowHalf(i uint) byte {
	var room [5 << 10]byte
	return room[i%uint(len(room))]
}

// Grow makes the stack 16 KiB large, which a GET takes. It is the largest size that the
// runtime keeps ready.
//
//go:noinline
func Grow(i uint) byte {
	var room [9 << 10]byte
	return room[i%uint(len(room))]
}

// GrowTwice makes the stack 32 KiB large, which a write takes.
//
//go:noinline
func GrowTwice(i uint) byte {
	var room [17 << 10]byte
	return room[i%uint(len(room))]
}
