package programs

import (
	"os"
	"path/filepath"
	"testing"
)

// helm runs scripts with the program helm, which `make bin/helm` builds: one with a small chart,
// and one with those of deploy/charts.
func (c *cluster) helm(t *testing.T) {
	program := os.Getenv(helmVariable)
	if program == "" {
		t.Skipf("%s names no helm: make bin/helm builds one", helmVariable)
	}
	check(t, os.Symlink(program, filepath.Join(c.bin, "helm")))
	for _, s := range c.sides {
		check(t, os.CopyFS(filepath.Join(s.dir, "chart"), os.DirFS("testdata/chart")))
		check(t, os.CopyFS(filepath.Join(s.dir, "deploy"), os.DirFS("../../../deploy")))
	}
	c.script(t, "helm")
	c.script(t, "charts")
}
