package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Rule finds breaches of one house rule in a tree.
type Rule struct {
	Name string
	Find func(*Tree) []Finding
}

// Rules returns all house rules.
func Rules() []Rule {
	return []Rule{
		{"file size", fileSize},
		{"function size", functionSize},
		{"imports", func(t *Tree) []Finding { return imports(t, newHouse(wings())) }},
		{"import groups", importGroups},
		{"wings", func(t *Tree) []Finding { return wingTable(t, newHouse(wings())) }},
		{"upstream", upstreamImports},
		{"package doc", packageDoc},
		{"type names", typeNames},
		{"case names", caseNames},
		{"sentences", longSentences},
		{"behind", behindWithoutLag},
		{"causatives", causatives},
		{"none", none},
		{"pronouns", pronouns},
		{"doc names", docNames},
		{"function docs", functionDocs},
		{"preposition names", prepositionNames},
		{"participle names", participleNames},
		{"parameter names", parameterNames},
		{"progress names", progressNames},
		{"paragraphs", paragraphs},
		{"references", func(t *Tree) []Finding { return references(t, minReferences) }},
		{"output", output},
		{"sleep", sleep},
		{"paths", paths},
		{"format", gofmt},
	}
}

// fileSize finds long files. Generated ones are left out.
func fileSize(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Go {
		limit := maxFileLines
		if file.IsTest() {
			limit = maxTestFileLines
		}
		if lines := file.Lines(); lines > limit && !ast.IsGenerated(file.Syntax) {
			found = append(found, Finding{Key: file.Name, Text: fmt.Sprintf("%d lines, at most %d: split it by noun", lines, limit)})
		}
	}
	return found
}

// functionSize finds long functions. Tests are left out, since their tables are data.
func functionSize(t *Tree) []Finding {
	var found []Finding
	t.eachFunction(func(file *File, function *ast.FuncDecl) {
		if lines := t.line(function.End()) - t.line(function.Pos()) + 1; lines > maxFuncLines {
			found = append(found, t.functionFinding(file, function, fmt.Sprintf("%d lines, at most %d: split it", lines, maxFuncLines)))
		}
	})
	return found
}

// functionName returns a function's name, with the receiver's type in front for a method.
func functionName(function *ast.FuncDecl) string {
	name := function.Name.Name
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return name
	}
	receiver := function.Recv.List[0].Type
	for {
		switch expr := receiver.(type) {
		case *ast.StarExpr:
			receiver = expr.X
		case *ast.IndexExpr:
			receiver = expr.X
		case *ast.IndexListExpr:
			receiver = expr.X
		case *ast.Ident:
			return expr.Name + "." + name
		default:
			return name
		}
	}
}

// upstreamImports finds imports of Kubernetes' module outside of the folders that may
// import it.
func upstreamImports(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Go {
		if slices.ContainsFunc(upstreamUsers(), func(folder string) bool { return isWithin(file.Dir(), folder) }) {
			continue
		}
		for _, imported := range importPaths(file) {
			if isWithin(imported, upstream) {
				found = append(found, Finding{Key: file.Name, Text: fmt.Sprintf("imports %s, which only %s may", imported, strings.Join(upstreamUsers(), " and "))})
			}
		}
	}
	return found
}

// packageDoc finds packages without a comment. A comment in a test file counts only if
// the package has nothing but tests.
func packageDoc(t *Tree) []Finding {
	documented, hasCode := make(map[string]bool), make(map[string]bool)
	for _, file := range t.Go {
		hasCode[file.Dir()] = hasCode[file.Dir()] || !file.IsTest()
	}
	for _, file := range t.Go {
		if file.Syntax.Doc.Text() != "" && (!file.IsTest() || !hasCode[file.Dir()]) {
			documented[file.Dir()] = true
		}
	}
	var found []Finding
	for dir := range hasCode {
		if !documented[dir] {
			found = append(found, Finding{Key: dir, Text: "has no package comment: say its purpose, what the caller must do, what it is not for"})
		}
	}
	return found
}

// output finds calls that write to the process's output instead of a logger.
func output(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Go {
		if internalPackage(file.Dir()) == "" {
			continue
		}
		log := importName(file, "log")
		t.calls(file, func(call *ast.CallExpr, qualifier, name string) {
			builtin := qualifier == "" && (name == "print" || name == "println")
			if builtin || log != "" && qualifier == log && strings.HasPrefix(name, "Print") {
				found = append(found, Finding{Key: file.Name, Line: t.line(call.Pos()), Text: "calls " + name + ": use the component's logger"})
			}
		})
	}
	return found
}

// sleep finds tests that sleep.
func sleep(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Go {
		name := importName(file, "time")
		if !file.IsTest() || name == "" {
			continue
		}
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && selector.Sel.Name == "Sleep" && isIdent(selector.X, name) {
				found = append(found, Finding{Key: file.Name, Line: t.line(node.Pos()), Text: "sleeps: wait for the event itself, or use a clock that the test drives"})
			}
			return true
		})
	}
	return found
}

// paths finds absolute paths of one machine, in every text file.
func paths(t *Tree) []Finding {
	var found []Finding
	for _, file := range slices.Concat(t.Go, t.Other) {
		number := 0
		for line := range bytes.Lines(file.Data) {
			number++
			for _, banned := range bannedPaths() {
				if startsPath(line, banned) {
					found = append(found, Finding{Key: file.Name, Line: number, Text: fmt.Sprintf("names a path in %s, which exists on one machine only", banned)})
				}
			}
		}
	}
	return found
}

// startsPath reports whether prefix occurs in a line as the beginning of a path, and not
// within one.
func startsPath(line []byte, prefix string) bool {
	for rest := line; ; {
		at := bytes.Index(rest, []byte(prefix))
		if at < 0 {
			return false
		}
		if at == 0 || !isPathByte(rest[at-1]) {
			return true
		}
		rest = rest[at+1:]
	}
}

// isPathByte reports whether a byte before a slash means that the path began earlier.
func isPathByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("._-~)}*", b) >= 0
}

// gofmt finds files that gofmt would change.
func gofmt(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Go {
		want, err := format.Source(file.Data)
		if err != nil || !bytes.Equal(want, file.Data) {
			found = append(found, Finding{Key: file.Name, Text: "is not formatted: run gofmt -w on it"})
		}
	}
	return found
}

// line returns the line of a position within its file.
func (t *Tree) line(pos token.Pos) int { return t.Fset.Position(pos).Line }

// calls visits all calls by a name, such as println, or a qualified name, such as
// fmt.Println.
func (t *Tree) calls(file *File, visit func(call *ast.CallExpr, qualifier, name string)) {
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch callee := call.Fun.(type) {
		case *ast.Ident:
			visit(call, "", callee.Name)
		case *ast.SelectorExpr:
			if qualifier, ok := callee.X.(*ast.Ident); ok {
				visit(call, qualifier.Name, callee.Sel.Name)
			}
		}
		return true
	})
}

// isIdent reports whether an expression is a name alone.
func isIdent(expr ast.Expr, name string) bool {
	ident, ok := expr.(*ast.Ident)
	return ok && ident.Name == name
}

// importName returns a file's name for a package of the standard library. It is empty if
// the file does not import the package.
func importName(file *File, importPath string) string {
	for _, spec := range file.Syntax.Imports {
		if spec.Path.Value != strconv.Quote(importPath) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return importPath
	}
	return ""
}

// importPaths returns the paths of all packages that a file imports.
func importPaths(file *File) []string {
	var result []string
	for _, spec := range file.Syntax.Imports {
		if value, err := strconv.Unquote(spec.Path.Value); err == nil {
			result = append(result, value)
		}
	}
	return result
}

// isWithin reports whether a path is parent or lies below it.
func isWithin(importPath, parent string) bool {
	return importPath == parent || strings.HasPrefix(importPath, parent+"/")
}
