package growstack_test

import (
	"testing"
	"unsafe"

	"github.com/millrace/millrace/internal/conn/growstack"
)

// TestGrow calls two functions in a new goroutine and checks whether each of them moved
// the stack. The first must, as the stack is new. The second must only if it asks for
// more than the first.
func TestGrow(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second func(uint) byte
		moved         bool
	}{
		{"8 KiB", growstack.GrowHalf, growstack.GrowHalf, false},
		{"16 KiB behind 8", growstack.GrowHalf, growstack.Grow, true},
		{"16 KiB", growstack.Grow, growstack.Grow, false},
		{"32 KiB", growstack.GrowTwice, growstack.GrowTwice, false},
		{"32 KiB behind 16", growstack.Grow, growstack.GrowTwice, true},
		{"16 KiB behind 32", growstack.GrowTwice, growstack.Grow, false},
	} {
		first, second := make(chan bool), make(chan bool)
		go func() {
			first <- moves(c.first)
			second <- moves(c.second)
		}()
		if !<-first {
			t.Errorf("%s: the new stack did not move", c.name)
		}
		if got := <-second; got != c.moved {
			t.Errorf("%s: the grown stack moved: %v", c.name, got)
		}
	}
}

//go:noinline
func moves(grow func(uint) byte) bool {
	var here byte
	before := uintptr(unsafe.Pointer(&here))
	grow(1)
	return before != uintptr(unsafe.Pointer(&here))
}
