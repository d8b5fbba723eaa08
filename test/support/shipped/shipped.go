// Package shipped reads custom resource definitions that many clusters have, from the Go
// modules that ship them. The modules must be in the module cache; nothing is downloaded.
package shipped

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Module is a Go module with definitions. Its version is in test/equal/crds/definitions/go.mod.
type Module struct {
	// Path is the module's path. Files is a pattern of the files with definitions in it.
	Path, Files string
}

// Modules has all modules, by the names that tests use.
var Modules = map[string]Module{
	"gateway":             {"sigs.k8s.io/gateway-api", "config/crd/experimental/*.yaml"},
	"cert_manager":        {"github.com/cert-manager/cert-manager", "deploy/crds/*.yaml"},
	"crossplane":          {"github.com/crossplane/crossplane/v2", "cluster/crds/*.yaml"},
	"prometheus_operator": {"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/*.yaml"},
	"istio":               {"istio.io/api", "kubernetes/customresourcedefinitions.gen.yaml"},
	"external_secrets":    {"github.com/external-secrets/external-secrets", "config/crds/bases/*.yaml"},
}

// Documents returns the YAML documents of a module's files, in order. Some may not be
// definitions. versions is the path of the directory test/equal/crds/definitions, relative to
// the test. The test is skipped if the module cache does not have the module.
func (m Module) Documents(tb testing.TB, versions string) [][]byte {
	tb.Helper()
	dir := m.directory(tb, versions)
	if dir == "" {
		tb.Skipf("module %s is not in the module cache: run `make modules`", m.Path)
	}
	files, err := filepath.Glob(filepath.Join(dir, m.Files))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no files %s in %s: %v", m.Files, dir, err)
	}
	var all [][]byte
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, bytes.Split(content, []byte("\n---"))...)
	}
	return all
}

// directory returns the module's directory in the module cache, or "" if the cache does not have
// the module.
func (m Module) directory(tb testing.TB, versions string) string {
	tb.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.Path)
	cmd.Dir = versions
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		tb.Logf("find %s: %v", m.Path, err)
	}
	return strings.TrimSpace(string(out))
}
