package counterpart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kubernetes is the module whose version stands for the versions of all others.
const kubernetes = "k8s.io/kubernetes"

// Module is one version of a module.
type Module struct {
	Path    string
	Version string
	// Dir has the module's source. It is empty until Modules has fetched it.
	Dir string
}

// Modules is a set of modules, at most one version of each, in which Find searches. It keeps
// the files that it has read. It is not safe for concurrent use.
type Modules struct {
	byPath   map[string]*Module
	packages map[string][]*sourceFile
	// fetch returns the directory of a module whose Dir is empty.
	fetch func(Module) (string, error)
}

// NewModules returns a set of modules. Modules without a Dir are errors once they are
// needed.
func NewModules(list ...Module) *Modules {
	m := &Modules{byPath: map[string]*Module{}, packages: map[string][]*sourceFile{}, fetch: func(m Module) (string, error) {
		return "", fmt.Errorf("%s %s is not in the module cache, or not in go.sum: run go mod download %s", m.Path, m.Version, m.Path)
	}}
	for _, module := range list {
		m.byPath[module.Path] = &module
	}
	return m
}

// RequiredModules returns the modules that the go.mod below root selects. It uses no network: a
// module that is not in the module cache is an error once a mark needs it.
func RequiredModules(root string) (*Modules, error) {
	// This read makes Go's test cache depend on go.mod.
	if _, err := os.ReadFile(filepath.Join(root, "go.mod")); err != nil {
		return nil, fmt.Errorf("read requirements: %w", err)
	}
	paths, err := requirements(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-m", "-json"}
	for _, module := range paths {
		args = append(args, module.Path)
	}
	output, err := runGo(root, args...)
	if err != nil {
		return nil, fmt.Errorf("find modules: %w", err)
	}
	var list []Module
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var module struct {
			Module
			Replace *Module
		}
		if err := decoder.Decode(&module); err != nil {
			return nil, fmt.Errorf("find modules: %w", err)
		}
		if module.Replace != nil && module.Replace.Version != "" {
			module.Version = module.Replace.Version
		}
		list = append(list, module.Module)
	}
	return NewModules(list...), nil
}

// Release returns the modules of one version of Kubernetes, such as v1.36.3. Kubernetes' own
// parts have the version v0.36.3, other modules the version that its go.mod requires. Modules
// that are not in the module cache are downloaded when they are first needed.
func Release(version string) (*Modules, error) {
	rest, ok := strings.CutPrefix(version, "v1.")
	if !ok {
		return nil, fmt.Errorf("%q is no version of Kubernetes: give one as v1.36.3", version)
	}
	main := Module{Path: kubernetes, Version: version}
	var err error
	if main.Dir, err = download(main); err != nil {
		return nil, err
	}
	list, err := partsOf(filepath.Join(main.Dir, "go.mod"), "v0."+rest)
	if err != nil {
		return nil, err
	}
	modules := NewModules(append(list, main)...)
	modules.fetch = download
	return modules, nil
}

// partsOf returns the modules that the go.mod of Kubernetes requires. Its own parts are
// developed in the same repository, and published with a version of their own.
func partsOf(goMod, version string) ([]Module, error) {
	list, err := requirements(goMod)
	for i := range list {
		if list[i].Version == "v0.0.0" {
			list[i].Version = version
		}
	}
	return list, err
}

// Version returns a module's version, or "" for a module that is not in the set.
func (m *Modules) Version(path string) string {
	if module := m.byPath[path]; module != nil {
		return module.Version
	}
	return ""
}

// provider returns the module whose path begins an import path, and the directory that a
// package with that path would have.
func (m *Modules) provider(importPath string) (*Module, string, error) {
	for modulePath := importPath; modulePath != "." && modulePath != ""; modulePath = parent(modulePath) {
		module := m.byPath[modulePath]
		if module == nil {
			continue
		}
		if module.Dir == "" {
			dir, err := m.fetch(*module)
			if err != nil {
				return nil, "", err
			}
			module.Dir = dir
		}
		dir := filepath.Join(module.Dir, filepath.FromSlash(strings.TrimPrefix(importPath, modulePath)))
		return module, dir, nil
	}
	return nil, "", fmt.Errorf("%w: no module provides %s", ErrNotFound, importPath)
}

// parent returns an import path without its last element.
func parent(importPath string) string {
	return importPath[:max(0, strings.LastIndexByte(importPath, '/'))]
}

// requirements returns the modules that a go.mod requires, without directories.
func requirements(file string) ([]Module, error) {
	output, err := runGo("", "mod", "edit", "-json", file)
	if err != nil {
		return nil, fmt.Errorf("read requirements: %w", err)
	}
	var parsed struct{ Require []Module }
	if err := json.Unmarshal(output, &parsed); err != nil {
		return nil, fmt.Errorf("read requirements of %s: %w", file, err)
	}
	return parsed.Require, nil
}

// download returns the directory of a module in the module cache, and fetches the module if it
// is missing. It runs outside of any module, so no go.sum changes.
func download(module Module) (string, error) {
	output, err := runGo(os.TempDir(), "mod", "download", "-json", module.Path+"@"+module.Version)
	var result struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(output, &result); jsonErr == nil && result.Error != "" {
		err = errors.New(result.Error)
	}
	if err != nil {
		return "", fmt.Errorf("download %s %s, which is not in the module cache: %w", module.Path, module.Version, err)
	}
	return result.Dir, nil
}

// runGo runs the go command in a directory and returns its output. The command has no workspace
// and no flags from the environment. dir may be "" for the current directory.
func runGo(dir string, args ...string) ([]byte, error) {
	command := exec.Command("go", args...)
	command.Dir = dir
	command.Env = append(slices.Clone(os.Environ()), "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return output, fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return output, nil
}
