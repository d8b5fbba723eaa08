package testbed

import (
	"os"
	"syscall"
	"testing"
)

// TestPeakDuring uses memory outside Go's heap, so that the collector does not matter.
func TestPeakDuring(t *testing.T) {
	const size = 256 << 20
	before, peak, err := NewMeter(os.Getpid()).PeakDuring(func() error {
		memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return err
		}
		for i := 0; i < size; i += os.Getpagesize() {
			memory[i] = 1
		}
		return syscall.Munmap(memory)
	})
	if err != nil || peak-before < size/2 {
		t.Errorf("peak %d after %d, %v", peak, before, err)
	}
	if _, _, err := NewMeter(1 << 30).PeakDuring(func() error { return nil }); err == nil {
		t.Error("no error without a process")
	}
}
