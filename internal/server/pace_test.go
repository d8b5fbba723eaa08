package server

import "testing"

// TestPaceHeadroom checks that a collector that takes much of the CPU is given more
// room, up to a bound, and loses it again.
func TestPaceHeadroom(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name               string
		now                uint64
		collecting, living float64
		want               uint64
	}{
		{"much", 64 * mib, 0.7, 0.3, 128 * mib},
		{"much at the bound", 256 * mib, 0.7, 0.3, 256 * mib},
		{"some", 128 * mib, 0.15, 0.85, 128 * mib},
		{"little", 128 * mib, 0.01, 0.99, 64 * mib},
		{"little at the least", 64 * mib, 0.01, 0.99, 64 * mib},
		{"nothing was spent", 128 * mib, 0, 0, 64 * mib},
	} {
		if got := paceHeadroom(c.now, 256*mib, c.collecting, c.living); got != c.want {
			t.Errorf("%s: %d MiB, want %d", c.name, got/mib, c.want/mib)
		}
	}
}

// TestPacerIdle checks that work that nobody waits for gets no more room, and that
// what it gets is set.
func TestPacerIdle(t *testing.T) {
	t.Setenv("GOGC", "100") // the test's collector is left alone
	for idle, want := range map[bool]uint64{true: gcLargeHeadroom, false: 2 * gcLargeHeadroom} {
		p := newPacer(func() bool { return idle })
		p.most, p.headroom = 4*gcLargeHeadroom, gcLargeHeadroom
		p.last.cycles--
		p.last.collecting -= 1000 // seconds
		if p.look(); p.headroom != want {
			t.Errorf("idle %t: a headroom of %d, want %d", idle, p.headroom, want)
		}
		if p.rest(); p.headroom != gcLargeHeadroom {
			t.Errorf("idle %t: a headroom of %d at rest", idle, p.headroom)
		}
	}
}
