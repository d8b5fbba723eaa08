package crd

import (
	"fmt"
	"strings"
	"testing"
)

// TestNames looks at all names once the last is made: they share room.
func TestNames(t *testing.T) {
	var n NameArena
	var names, want []string
	for i := range 1000 {
		group := fmt.Sprintf("group%d.example.com", i)
		if i%100 == 7 {
			group = strings.Repeat("long.", 1000*(i/100)) + group
		}
		names, want = append(names, n.Join("v1", ".", group)), append(want, "v1."+group)
	}
	for i := range names {
		if names[i] != want[i] {
			t.Errorf("name %d is %.60q, want %.60q", i, names[i], want[i])
		}
	}
}
