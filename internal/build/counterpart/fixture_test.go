package counterpart

import (
	"path/filepath"
	"testing"
)

// fixtures returns the modules below a directory of testdata, "old" or "new", as two
// versions of Kubernetes.
func fixtures(t *testing.T, dir string) *Modules {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("testdata", dir))
	if err != nil {
		t.Fatal(err)
	}
	version := map[string]string{"old": "1.0", "new": "2.0"}[dir]
	return NewModules(
		Module{Path: kubernetes, Version: "v1." + version, Dir: filepath.Join(root, "kubernetes")},
		Module{Path: "k8s.io/apiserver", Version: "v0." + version, Dir: filepath.Join(root, "apiserver")},
		Module{Path: "k8s.io/apiextensions-apiserver", Version: "v0." + version, Dir: filepath.Join(root, "apiextensions")},
		Module{Path: "example.org/yaml.v3", Version: "v3.0.0", Dir: filepath.Join(root, "yaml")},
		Module{Path: "example.org/missing", Version: "v1.0.0"},
	)
}

const kinds = "k8s.io/apiserver/pkg/kinds."

// markOf returns a mark for a declaration of the fixtures.
func markOf(name, ours string, line int) Mark {
	return Mark{Name: kinds + name, Ours: ours, File: "internal/apiserver/kube/chain.go", Line: line}
}

func find(t *testing.T, modules *Modules, name string) *Declaration {
	t.Helper()
	declaration, err := modules.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return declaration
}
