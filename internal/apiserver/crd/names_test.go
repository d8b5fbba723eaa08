package crd

import (
	"fmt"
	"strings"
	"testing"
)

// TestNameArena checks all names after the last one is made, since they share blocks.
func TestNameArena(t *testing.T) {
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
