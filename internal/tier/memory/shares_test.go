package memory

import "testing"

// TestShares pins the shares of a small, a usual and a large machine.
func TestShares(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, want := range []Shares{
		{
			Total: 1 * gib, WireCache: 64 * mib, CompiledSchemas: 64 * mib, ConvertedObjects: 32 * mib,
			History: 64 * mib, WatchFrames: 32 * mib, ReplayRevisions: 10_922, CollectorHeadroom: 22_369_621,
		},
		{
			Total: 4 * gib, WireCache: 256 * mib, CompiledSchemas: 89_478_485, ConvertedObjects: 44_739_242,
			History: 64 * mib, WatchFrames: 32 * mib, ReplayRevisions: 43_690, CollectorHeadroom: 89_478_485,
		},
		{
			Total: 64 * gib, WireCache: 320 * mib, CompiledSchemas: 512 * mib, ConvertedObjects: 256 * mib,
			History: 64 * mib, WatchFrames: 32 * mib, ReplayRevisions: 50_000, CollectorHeadroom: 384 * mib,
		},
	} {
		if got := Divide(want.Total); got != want {
			t.Errorf("%d MiB are divided into\n%+v, want\n%+v", want.Total/mib, got, want)
		}
	}
}
