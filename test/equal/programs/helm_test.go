package programs

import (
	"os"
	"path/filepath"
	"testing"
)

// helm runs a script with the program helm, which `make helm` builds.
func (c *cluster) helm(t *testing.T) {
	program := os.Getenv(helmVariable)
	if program == "" {
		t.Skipf("%s names no helm: make helm builds one", helmVariable)
	}
	check(t, os.Symlink(program, filepath.Join(c.bin, "helm")))
	for _, s := range c.sides {
		check(t, os.CopyFS(filepath.Join(s.dir, "chart"), os.DirFS("testdata/chart")))
	}
	c.script(t, "helm")
}
