package counterpart

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// readPackages are the packages through which a read goes in Kubernetes. The feature
// gates that they consult may change what clients see.
var readPackages = []string{
	"k8s.io/apiserver/pkg/authentication/request/x509",
	"k8s.io/apiserver/pkg/endpoints",
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated",
	"k8s.io/apiserver/pkg/endpoints/filters",
	"k8s.io/apiserver/pkg/endpoints/handlers",
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation",
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters",
	"k8s.io/apiserver/pkg/endpoints/request",
	"k8s.io/apiserver/pkg/registry/generic/registry",
	"k8s.io/apiserver/pkg/server",
	"k8s.io/apiserver/pkg/storage",
	"k8s.io/apiserver/pkg/storage/cacher",
	"k8s.io/apiserver/pkg/storage/cacher/delegator",
	"k8s.io/apiserver/pkg/storage/cacher/store",
	"k8s.io/apiserver/pkg/storage/etcd3",
	"k8s.io/apiserver/pkg/storage/etcd3/metrics",
	"k8s.io/apiserver/pkg/storage/storagebackend/factory",
	"k8s.io/apiserver/pkg/util/flowcontrol/request",
	"k8s.io/apiserver/pkg/util/openapi",
	"k8s.io/apiextensions-apiserver/pkg/apiserver",
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion",
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi",
	"k8s.io/apiextensions-apiserver/pkg/controller/openapiv3",
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource",
	"k8s.io/kubernetes/pkg/controlplane/apiserver",
}

// gateUse maps the name of a feature gate to a place that consults it.
type gateUse map[string]string

// add notes the gates that a file consults: names qualified by one of GatePackages.
func (u gateUse) add(file *ast.File, place string) {
	qualifiers := map[string]bool{}
	for _, spec := range file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !slices.Contains(GatePackages, importPath) {
			continue
		}
		if spec.Name != nil {
			qualifiers[spec.Name.Name] = true
		} else {
			qualifiers[path.Base(importPath)] = true
		}
	}
	if len(qualifiers) == 0 {
		return
	}
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if qualifier, ok := selector.X.(*ast.Ident); ok && qualifiers[qualifier.Name] {
			if name := selector.Sel.Name; u[name] == "" {
				u[name] = place
			}
		}
		return true
	})
}

// readPathGates returns the gates that the packages of the read path consult. It leaves out
// packages that are gone, which Check reports by their marks.
func (m *Modules) readPathGates() (gateUse, error) {
	use := gateUse{}
	for _, importPath := range readPackages {
		_, dir, err := m.provider(importPath)
		if err != nil {
			return nil, err
		}
		files, err := m.files(dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := file.parse(); err != nil {
				return nil, fmt.Errorf("read uses of feature gates: %w", err)
			}
			use.add(file.syntax, importPath)
		}
	}
	return use, nil
}

// ourGates returns the gates that the code below internal consults. Tests are left out.
func ourGates(root string) (gateUse, error) {
	use := gateUse{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "testdata" {
			return filepath.SkipDir
		}
		if entry.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		use.add(syntax, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read uses of feature gates: %w", err)
	}
	return use, nil
}

// allGates returns the gates of all GatePackages.
func (m *Modules) allGates() (map[string]Gate, error) {
	all := map[string]Gate{}
	for _, importPath := range GatePackages {
		gates, err := m.Gates(importPath)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, gates)
	}
	return all, nil
}
