package counterpart

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Mark is one comment that names a counterpart in Kubernetes.
type Mark struct {
	// Name is the counterpart: import path, a dot, and the identifier in its package.
	Name string
	// Ours is the declaration with the mark, such as crd/definitioncodec.schemaWriter.write:
	// the package's path within its wing, a dot, and the identifier.
	Ours string
	// File is relative to the module's root and has slashes.
	File string
	Line int
}

// Position returns the place of the mark as compilers write it.
func (m Mark) Position() string { return fmt.Sprintf("%s:%d", m.File, m.Line) }

const markPrefix = "// Upstream:"

// markLine matches the line of a comment that is a mark.
var markLine = regexp.MustCompile(`^// Upstream: (\S+); compare at each upgrade\.$`)

// ReadMarks returns the marks of all Go files below internal, by file and line, without test
// data. A malformed mark is an error, and so is a mark that belongs to no declaration.
func ReadMarks(root string) ([]Mark, error) {
	var marks []Mark
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "testdata" {
			return filepath.SkipDir
		}
		if entry.IsDir() || path.Ext(file) != ".go" {
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		inFile, err := marksOf(filepath.ToSlash(name), data)
		marks = append(marks, inFile...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return marks, nil
}

// marksOf returns the marks of one file. It does not parse files without markPrefix.
func marksOf(name string, data []byte) ([]Mark, error) {
	if !bytes.Contains(data, []byte(markPrefix)) {
		return nil, nil
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var marks []Mark
	for _, group := range syntax.Comments {
		for _, comment := range group.List {
			if !strings.HasPrefix(comment.Text, markPrefix) {
				continue
			}
			mark := Mark{File: name, Line: set.Position(comment.Pos()).Line}
			match := markLine.FindStringSubmatch(comment.Text)
			if match == nil {
				return nil, fmt.Errorf("%s: write a mark as %q", mark.Position(), markPrefix+" PACKAGE PATH.NAME; compare at each upgrade.")
			}
			owner := ownerOf(syntax, comment.Pos())
			if owner == "" {
				return nil, fmt.Errorf("%s: the mark belongs to no declaration: move it into the comment of one", mark.Position())
			}
			mark.Name = match[1]
			mark.Ours = withoutWing(path.Dir(name)) + "." + owner
			marks = append(marks, mark)
		}
	}
	return marks, nil
}

// withoutWing returns a package's path within its wing, and the name of the wing if the
// package is the wing's own folder.
func withoutWing(dir string) string {
	name := strings.TrimPrefix(dir, "internal/")
	if _, inWing, nested := strings.Cut(name, "/"); nested {
		return inWing
	}
	return name
}

// ownerOf returns the name of the declaration whose comment or text contains a position. It
// returns "" for a position outside of all declarations.
func ownerOf(file *ast.File, pos token.Pos) string {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if covers(decl.Doc, decl, pos) {
				return functionName(decl)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if covers(docOf(spec), spec, pos) {
					return specNames(spec)[0]
				}
			}
			if covers(decl.Doc, decl, pos) && len(decl.Specs) > 0 && decl.Tok != token.IMPORT {
				return specNames(decl.Specs[0])[0]
			}
		}
	}
	return ""
}

// covers reports whether a position is in a node or in its comment, which may be nil.
func covers(doc *ast.CommentGroup, node ast.Node, pos token.Pos) bool {
	first := node.Pos()
	if doc != nil {
		first = doc.Pos()
	}
	return first <= pos && pos < node.End()
}
