package lint

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Tree has the text files of a module, read and parsed once. Rules do not change it.
type Tree struct {
	// Module is the module's import path.
	Module string
	Fset   *token.FileSet
	// Go are the files of Go code, Other all other text files.
	Go    []*File
	Other []*File
}

// File is one text file.
type File struct {
	// Name is relative to the module's root and has slashes.
	Name string
	Data []byte
	// Syntax is nil unless the file is Go.
	Syntax *ast.File
}

// Finding is one breach of a rule.
type Finding struct {
	// Key identifies the finding: a file, a file and a name within it, or a directory.
	Key string
	// Line is 0 if the finding concerns the whole file.
	Line int
	Text string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return f.Key + ": " + f.Text
	}
	return fmt.Sprintf("%s: line %d: %s", f.Key, f.Line, f.Text)
}

// IsTest reports whether the file is compiled only into tests.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Name, "_test.go") }

// Dir returns the file's directory, "." for the module's root.
func (f *File) Dir() string { return path.Dir(f.Name) }

// Lines returns the number of lines. A last line without a newline counts too.
func (f *File) Lines() int {
	lines := bytes.Count(f.Data, []byte("\n"))
	if len(f.Data) > 0 && !bytes.HasSuffix(f.Data, []byte("\n")) {
		lines++
	}
	return lines
}

// Root returns the directory of go.mod: dir, or the nearest one above it.
func Root(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve directory: %w", err)
	}
	for at := abs; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod in %s or above it: run inside the module", abs)
		}
	}
}

// Load reads the tree below root, without hidden and ignored directories. It walks the
// directories itself, and does not ask Git: so Go's test cache sees what the test
// depends on.
func Load(root string) (*Tree, error) {
	skip, err := ignoredDirs(root)
	if err != nil {
		return nil, err
	}
	tree := &Tree{Fset: token.NewFileSet()}
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir() && name != "." && (isHidden(entry.Name()) || slices.Contains(skip, name)):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || name == gitDir:
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return tree.Add(name, data)
	})
	if err != nil {
		return nil, fmt.Errorf("read tree: %w", err)
	}
	return tree, nil
}

// Add adds a file to the tree, parsed if it is Go. It ignores binary files.
func (t *Tree) Add(name string, data []byte) error {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil
	}
	file := &File{Name: name, Data: data}
	if name == "go.mod" {
		t.Module = modulePath(data)
	}
	if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
		t.Other = append(t.Other, file)
		return nil
	}
	var err error
	file.Syntax, err = parser.ParseFile(t.Fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse file: %w", err)
	}
	t.Go = append(t.Go, file)
	return nil
}

// gitDir is Git's own directory at the root. In a linked worktree it is a file
// that names a path of this machine.
const gitDir = ".git"

// modulePath returns the import path in a go.mod.
func modulePath(data []byte) string {
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, "module "); found {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// isHidden reports whether a directory is hidden. The two that hold a project's own
// files count as visible.
func isHidden(dir string) bool {
	return strings.HasPrefix(dir, ".") && dir != ".ci" && dir != ".github"
}

// ignoredDirs returns the directories that .gitignore names in the form "/name/". Other
// patterns have no effect.
func ignoredDirs(root string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ignore list: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "/") && strings.HasSuffix(line, "/") {
			names = append(names, strings.Trim(line, "/"))
		}
	}
	return names, nil
}
