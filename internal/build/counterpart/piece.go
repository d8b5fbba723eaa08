package counterpart

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// piece is a node of a file that is a part of a declaration.
type piece struct {
	name string
	doc  *ast.CommentGroup
	node ast.Node
	// before and after stand around the node's text to make it a declaration. A node that is a
	// declaration by itself has none.
	before, after string
}

// findInSpec returns the piece of a type, variable or constant with the name owner. If
// method is not empty, it is the piece of a method of the interface with that name.
func findInSpec(decl *ast.GenDecl, spec ast.Spec, owner, method string) (piece, bool) {
	if !slices.Contains(specNames(spec), owner) {
		return piece{}, false
	}
	if method != "" {
		return interfaceMethod(spec, owner, method)
	}
	if !decl.Lparen.IsValid() || decl.Tok == token.CONST && dependsOnGroup(spec) {
		return piece{name: owner, doc: decl.Doc, node: decl}, true
	}
	return piece{name: owner, doc: docOf(spec), node: spec, before: decl.Tok.String() + " "}, true
}

// interfaceMethod returns the piece of a method of the interface owner, and false if spec is no
// interface with this method.
func interfaceMethod(spec ast.Spec, owner, method string) (piece, bool) {
	typeSpec, ok := spec.(*ast.TypeSpec)
	if !ok {
		return piece{}, false
	}
	body, ok := typeSpec.Type.(*ast.InterfaceType)
	if !ok {
		return piece{}, false
	}
	for _, field := range body.Methods.List {
		if len(field.Names) == 1 && field.Names[0].Name == method {
			return piece{
				name: owner + "." + method, doc: field.Doc, node: field,
				before: "type " + owner + " interface {\n", after: "\n}",
			}, true
		}
	}
	return piece{}, false
}

// dependsOnGroup reports whether a constant's value depends on its place in the group: the
// constant repeats the value before it, or counts with iota.
func dependsOnGroup(spec ast.Spec) bool {
	value, ok := spec.(*ast.ValueSpec)
	if !ok {
		return false
	}
	depends := len(value.Values) == 0
	for _, expr := range value.Values {
		ast.Inspect(expr, func(node ast.Node) bool {
			if id, ok := node.(*ast.Ident); ok && id.Name == "iota" {
				depends = true
			}
			return true
		})
	}
	return depends
}

// packageClause, before a declaration, makes the text of a file.
const packageClause = "package p\n"

// normalForm returns the source of a declaration as gofmt writes it, without comments and
// blank lines. It formats twice: a removed comment leaves a blank line, and gofmt aligns the
// columns of a struct only up to a blank line.
func normalForm(source string) (string, error) {
	text, err := withoutComments(source)
	if err != nil {
		return "", fmt.Errorf("format declaration: %w", err)
	}
	text, err = withoutComments(withoutBlankLines(text))
	return withoutBlankLines(text), err
}

// withoutComments returns the source as gofmt writes it, without comments.
func withoutComments(source string) (string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", packageClause+source, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, decl := range file.Decls {
		if err := format.Node(&b, set, decl); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// withoutBlankLines returns the source without blank lines. It keeps blank lines inside strings.
func withoutBlankLines(source string) string {
	data := []byte(source)
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(data))
	inString := map[int]bool{}
	var s scanner.Scanner
	s.Init(file, data, nil, 0)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.STRING {
			first := file.Line(pos)
			for line := range strings.Count(literal, "\n") {
				inString[first+line+1] = true
			}
		}
	}
	var b strings.Builder
	number := 0
	for line := range strings.Lines(source) {
		number++
		if strings.TrimSpace(line) != "" || inString[number] {
			b.WriteString(line)
		}
	}
	return b.String()
}
