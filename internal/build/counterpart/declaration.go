package counterpart

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotFound is the error of a name that a set of modules does not declare.
var ErrNotFound = errors.New("not declared")

// Declaration is the source of one counterpart.
//
// The declaration of a type includes its methods, except generated ones: a function of ours
// that replaces a type replaces the work of its methods. The declaration of a constant in a
// group that counts with iota is the whole group.
type Declaration struct {
	Name   string
	Module Module
	// Parts are in the order of files and lines. Their names are unique: where files for
	// several platforms declare the same name, the file's name is added.
	Parts []Part
}

// Part is one piece of source of a Declaration.
type Part struct {
	// Name is the identifier in its package: a function, a type, or TYPE.METHOD.
	Name string
	// File is relative to the module and has slashes. Line is the first one of Text.
	File string
	Line int
	// Text is the source in the file, with comments.
	Text string
	// normal is the normal form of the source, from which the digest is made.
	normal string
}

// Digest returns the digest of a declaration: the first 12 hexadecimal digits of the
// SHA-256 of its normal form. Comments and blank lines do not change it, nor does the
// file in which a part stands.
func (d *Declaration) Digest() string {
	hash := sha256.New()
	for _, part := range d.Parts {
		fmt.Fprintf(hash, "%s\n%s\n", part.Name, part.normal)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}

// Find returns the declaration of a name: import path, a dot, and an identifier or
// TYPE.METHOD. It ignores build constraints and test files. The error is ErrNotFound if no
// such declaration exists.
func (m *Modules) Find(name string) (*Declaration, error) {
	module, dir, identifier, err := m.split(name)
	if err != nil {
		return nil, err
	}
	files, err := m.files(dir)
	if err != nil {
		return nil, err
	}
	declaration := &Declaration{Name: name, Module: *module}
	for _, file := range files {
		parts, err := file.find(module.Dir, identifier)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		declaration.Parts = append(declaration.Parts, parts...)
	}
	if len(declaration.Parts) == 0 {
		return nil, fmt.Errorf("%w: %s %s has no %s", ErrNotFound, module.Path, module.Version, name)
	}
	distinguish(declaration.Parts)
	return declaration, nil
}

// split returns the package and the identifier of a name. The last element of an import path
// may contain dots, too, so split cuts at the first dot that leaves an existing package.
func (m *Modules) split(name string) (_ *Module, dir, identifier string, _ error) {
	var notFound error
	for at := strings.LastIndexByte(name, '/') + 1; at < len(name); at++ {
		if name[at] != '.' {
			continue
		}
		module, dir, err := m.packageDir(name[:at])
		if err == nil {
			return module, dir, name[at+1:], nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, "", "", err
		}
		if notFound == nil {
			notFound = err
		}
	}
	if notFound == nil {
		notFound = fmt.Errorf("%w: %q has no identifier after its import path", ErrNotFound, name)
	}
	return nil, "", "", notFound
}

// packageDir returns the module of a package, and the package's directory. A package without Go
// files is an ErrNotFound.
func (m *Modules) packageDir(importPath string) (*Module, string, error) {
	module, dir, err := m.provider(importPath)
	if err != nil {
		return nil, "", err
	}
	files, err := m.files(dir)
	if err != nil {
		return nil, "", err
	}
	if len(files) == 0 {
		return nil, "", fmt.Errorf("%w: %s %s has no package %s", ErrNotFound, module.Path, module.Version, importPath)
	}
	return module, dir, nil
}

// distinguish adds the file to the name of each part whose name another part has too.
func distinguish(parts []Part) {
	count := map[string]int{}
	for _, part := range parts {
		count[part.Name]++
	}
	for i := range parts {
		if count[parts[i].Name] > 1 {
			parts[i].Name += " in " + filepath.Base(parts[i].File)
		}
	}
}

// sourceFile is a Go file of a package. It is parsed when a name that occurs in it is first
// searched for.
type sourceFile struct {
	path   string
	data   []byte
	set    *token.FileSet
	syntax *ast.File
}

// files returns the Go files of a directory, without tests. It returns nil for a directory that
// does not exist.
func (m *Modules) files(dir string) ([]*sourceFile, error) {
	if files, known := m.packages[dir]; known {
		return files, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read package: %w", err)
	}
	var files []*sourceFile
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file := &sourceFile{path: filepath.Join(dir, entry.Name())}
		if file.data, err = os.ReadFile(file.path); err != nil {
			return nil, fmt.Errorf("read package: %w", err)
		}
		files = append(files, file)
	}
	m.packages[dir] = files
	return files, nil
}

// find returns the parts of a declaration in the file.
func (f *sourceFile) find(root, identifier string) ([]Part, error) {
	owner, method, isMethod := strings.Cut(identifier, ".")
	if !bytes.Contains(f.data, []byte(owner)) || !bytes.Contains(f.data, []byte(method)) {
		return nil, nil
	}
	if err := f.parse(); err != nil {
		return nil, err
	}
	generated := ast.IsGenerated(f.syntax)
	var pieces []piece
	for _, decl := range f.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := functionName(decl)
			if name == identifier || !isMethod && !generated && strings.HasPrefix(name, identifier+".") {
				pieces = append(pieces, piece{name: name, doc: decl.Doc, node: decl})
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if found, ok := findInSpec(decl, spec, owner, method); ok {
					pieces = append(pieces, found)
				}
			}
		}
	}
	return f.parts(root, pieces)
}

// parse parses the file, unless it is parsed already.
func (f *sourceFile) parse() error {
	if f.syntax != nil {
		return nil
	}
	f.set = token.NewFileSet()
	var err error
	f.syntax, err = parser.ParseFile(f.set, f.path, f.data, parser.ParseComments|parser.SkipObjectResolution)
	return err
}

// parts returns the source of pieces of the file. root is the module's directory.
func (f *sourceFile) parts(root string, pieces []piece) ([]Part, error) {
	name, err := filepath.Rel(root, f.path)
	if err != nil {
		return nil, err
	}
	var parts []Part
	for _, p := range pieces {
		first := p.node.Pos()
		if p.doc != nil {
			first = p.doc.Pos()
		}
		normal, err := normalForm(p.before + f.text(p.node.Pos(), p.node.End()) + p.after)
		if err != nil {
			return nil, err
		}
		start := f.set.Position(first)
		lineStart := bytes.LastIndexByte(f.data[:start.Offset], '\n') + 1
		parts = append(parts, Part{
			Name: p.name, File: filepath.ToSlash(name), Line: start.Line, normal: normal,
			Text: string(f.data[lineStart:f.set.Position(p.node.End()).Offset]),
		})
	}
	return parts, nil
}

func (f *sourceFile) text(first, end token.Pos) string {
	return string(f.data[f.set.Position(first).Offset:f.set.Position(end).Offset])
}
