package counterpart

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// GatePackages has the packages that declare the API server's feature gates, each in a file
// kube_features.go.
var GatePackages = []string{
	"k8s.io/apiserver/pkg/features",
	"k8s.io/apiextensions-apiserver/pkg/features",
	"k8s.io/kubernetes/pkg/features",
}

// Gate is a feature gate in one version of Kubernetes.
type Gate struct {
	Name string
	// Stage is Alpha, Beta, GA or Deprecated.
	Stage  string
	On     bool
	Locked bool
}

// String returns the state in words: "Beta, on" or "GA, on, locked".
func (g Gate) String() string {
	text := g.Stage + ", off"
	if g.On {
		text = g.Stage + ", on"
	}
	if g.Locked {
		text += ", locked"
	}
	return text
}

// Gates returns the feature gates of a package, by name, in their state at the version of the
// modules. The package also lists the states at other versions.
func (m *Modules) Gates(importPath string) (map[string]Gate, error) {
	minor, err := minorVersion(m.Version(kubernetes))
	if err != nil {
		return nil, err
	}
	_, dir, err := m.provider(importPath)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "kube_features.go")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read feature gates: %w", err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read feature gates: %w", err)
	}
	gates := map[string]Gate{}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if ok && isSpecMap(literal.Type) {
			for _, element := range literal.Elts {
				if gate, ok := gateOf(element, minor); ok {
					gates[gate.Name] = gate
				}
			}
		}
		return true
	})
	if len(gates) == 0 {
		return nil, fmt.Errorf("read feature gates: %s has no map of VersionedSpecs: its form has changed", name)
	}
	return gates, nil
}

// minorVersion returns the second number of a version such as v1.36.3.
func minorVersion(version string) (int, error) {
	elements := strings.Split(version, ".")
	if len(elements) < 2 {
		return 0, fmt.Errorf("%q is no version of Kubernetes: give one as v1.36.3", version)
	}
	return strconv.Atoi(elements[1])
}

// isSpecMap reports whether a type is map[featuregate.Feature]featuregate.VersionedSpecs.
func isSpecMap(expr ast.Expr) bool {
	m, ok := expr.(*ast.MapType)
	return ok && lastName(m.Value) == "VersionedSpecs"
}

// gateOf returns the gate of one element of the map, in its state at a minor version. It
// returns false if the gate does not exist at this version yet.
func gateOf(element ast.Expr, minor int) (Gate, bool) {
	pair, ok := element.(*ast.KeyValueExpr)
	if !ok {
		return Gate{}, false
	}
	specs, ok := pair.Value.(*ast.CompositeLit)
	if !ok {
		return Gate{}, false
	}
	gate := Gate{Name: lastName(pair.Key)}
	exists := false
	for _, spec := range specs.Elts {
		literal, ok := spec.(*ast.CompositeLit)
		if !ok {
			continue
		}
		since, state := stateOf(literal)
		if since <= minor {
			state.Name = gate.Name
			gate = state
			exists = true
		}
	}
	return gate, exists
}

// stateOf returns the state of a FeatureSpec and the minor version from which it holds.
func stateOf(literal *ast.CompositeLit) (since int, state Gate) {
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch lastName(pair.Key) {
		case "Version":
			since = versionArgument(pair.Value)
		case "Default":
			state.On = lastName(pair.Value) == "true"
		case "LockToDefault":
			state.Locked = lastName(pair.Value) == "true"
		case "PreRelease":
			state.Stage = lastName(pair.Value)
		}
	}
	return since, state
}

// versionArgument returns the minor version in a call such as version.MustParse("1.36"). It
// returns 0 for another expression.
func versionArgument(expr ast.Expr) int {
	call, ok := expr.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return 0
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return 0
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return 0
	}
	minor, err := minorVersion(text)
	if err != nil {
		return 0
	}
	return minor
}

// lastName returns the name of an identifier, or the last part of a qualified name.
func lastName(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr.Name
	case *ast.SelectorExpr:
		return expr.Sel.Name
	}
	return ""
}
