package serve

import "testing"

// TestMemoryShares pins the shares of a small, a usual and a large machine.
func TestMemoryShares(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, want := range []MemoryShares{
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
		if got := divideMemory(want.Total); got != want {
			t.Errorf("%d MiB are divided into\n%+v, want\n%+v", want.Total/mib, got, want)
		}
	}
}

// TestMemorySharesByFlags checks that flags replace the shares they name, and no other.
func TestMemorySharesByFlags(t *testing.T) {
	const total = 4 << 30
	o := NewOptions()
	want := divideMemory(total)
	want.WireCache = divideMemory(availableMemory()).WireCache // the flag's default
	if got := o.memoryShares(total); got != want {
		t.Errorf("without flags the shares are\n%+v, want\n%+v", got, want)
	}
	if err := o.WireCacheSize.Set("0"); err != nil {
		t.Fatal(err)
	}
	o.CompiledBytes, o.Cache.HistoryBytes = 1000, 2000
	want.WireCache, want.CompiledSchemas, want.ConvertedObjects, want.History = 0, 1000, 500, 2000
	if got := o.memoryShares(total); got != want {
		t.Errorf("with flags the shares are\n%+v, want\n%+v", got, want)
	}
}
