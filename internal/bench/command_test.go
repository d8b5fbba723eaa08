package bench

import (
	"slices"
	"testing"
)

// TestSubcommands checks which subcommands users see. The others are run by
// comparisons only.
func TestSubcommands(t *testing.T) {
	var visible, hidden []string
	for _, cmd := range NewCommand(Config{}).Commands() {
		if cmd.Hidden {
			hidden = append(hidden, cmd.Name())
		} else {
			visible = append(visible, cmd.Name())
		}
	}
	slices.Sort(visible)
	slices.Sort(hidden)
	if want := []string{"crd", "discovery", "list", "provision", "replica", "servers", "tree", "watch"}; !slices.Equal(visible, want) {
		t.Errorf("visible subcommands are %q, want %q", visible, want)
	}
	if want := []string{"etcd", "floor-server", "proxy"}; !slices.Equal(hidden, want) {
		t.Errorf("hidden subcommands are %q, want %q", hidden, want)
	}
}
