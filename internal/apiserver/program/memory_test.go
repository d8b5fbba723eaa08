package program

import (
	"testing"

	"github.com/millrace/millrace/internal/tier/memory"
)

// TestMemorySharesByFlags checks that flags replace the shares they name, and no other.
func TestMemorySharesByFlags(t *testing.T) {
	const total = 4 << 30
	o := NewOptions()
	want := memory.Divide(total)
	want.WireCache = memory.Divide(memory.Available()).WireCache // the flag's default
	if got := o.MemoryShares(total); got != want {
		t.Errorf("without flags the shares are\n%+v, want\n%+v", got, want)
	}
	if err := o.WireCacheSize.Set("0"); err != nil {
		t.Fatal(err)
	}
	o.CompiledBytes, o.Cache.HistoryBytes = 1000, 2000
	want.WireCache, want.CompiledSchemas, want.ConvertedObjects, want.History = 0, 1000, 500, 2000
	if got := o.MemoryShares(total); got != want {
		t.Errorf("with flags the shares are\n%+v, want\n%+v", got, want)
	}
}
