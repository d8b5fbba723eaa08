package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
)

// eachFunction calls visit with each function and method of the tree's code. Tests and
// generated files are left out.
func (t *Tree) eachFunction(visit func(*File, *ast.FuncDecl)) {
	for _, file := range t.Go {
		if file.IsTest() || ast.IsGenerated(file.Syntax) {
			continue
		}
		for _, decl := range file.Syntax.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok {
				visit(file, function)
			}
		}
	}
}

// functionFinding returns a finding about a function.
func (t *Tree) functionFinding(file *File, function *ast.FuncDecl, text string) Finding {
	return Finding{Key: file.Name + ":" + functionName(function), Line: t.line(function.Pos()), Text: text}
}

// functionDocs finds functions with results whose comment takes them for a thing: "total is the
// sum" says neither that it computes nor what it costs. A comment may say that a function is
// another one of its package, with a difference.
func functionDocs(t *Tree) []Finding {
	names := map[string]bool{}
	t.eachFunction(func(file *File, function *ast.FuncDecl) {
		names[file.Dir()+" "+function.Name.Name] = true
	})
	var found []Finding
	t.eachFunction(func(file *File, function *ast.FuncDecl) {
		match := nounDoc.FindStringSubmatch(function.Doc.Text())
		if match == nil || match[1] != function.Name.Name || function.Type.Results == nil || names[file.Dir()+" "+match[2]] {
			return
		}
		found = append(found, t.functionFinding(file, function, `has results and is documented as a thing: write "returns" or another verb`))
	})
	return found
}

// docNames finds declarations whose comment does not begin with the name that it documents. Often
// the comment has another name since a renaming, or stands at the wrong place.
func docNames(t *Tree) []Finding {
	var found []Finding
	check := func(file *File, key, name string, doc *ast.CommentGroup) {
		if text := doc.Text(); text != "" && firstWord.FindString(text) != name {
			found = append(found, Finding{Key: file.Name + ":" + key, Line: t.line(doc.Pos()), Text: "has a comment that does not begin with " + name})
		}
	}
	t.eachFunction(func(file *File, function *ast.FuncDecl) {
		check(file, functionName(function), function.Name.Name, function.Doc)
	})
	for _, file := range t.Go {
		for _, decl := range file.Syntax.Decls {
			declared, ok := decl.(*ast.GenDecl)
			// The comment of declarations in parentheses is of all of them.
			if !ok || declared.Lparen.IsValid() || file.IsTest() || ast.IsGenerated(file.Syntax) {
				continue
			}
			switch spec := declared.Specs[0].(type) {
			case *ast.TypeSpec:
				check(file, spec.Name.Name, spec.Name.Name, declared.Doc)
			case *ast.ValueSpec:
				check(file, spec.Names[0].Name, spec.Names[0].Name, declared.Doc)
			}
		}
	}
	return found
}

var firstWord = regexp.MustCompile(`^\w+`)

// nounDoc matches a comment that takes a function for a thing: the function's name and the word
// after the verb.
var nounDoc = regexp.MustCompile(`^(\w+)\s+(?:is|are|was|were|has|have)\s+(\w+)`)

// prepositionNames finds functions that are named by a preposition alone. It reads well in one
// call, but cannot be searched for.
func prepositionNames(t *Tree) []Finding {
	var found []Finding
	t.eachFunction(func(file *File, function *ast.FuncDecl) {
		if slices.Contains(prepositions(), function.Name.Name) {
			found = append(found, t.functionFinding(file, function, "is named by a preposition: say what is returned or done"))
		}
	})
	return found
}

// participleNames finds functions that return a value and are named by a bare participle, as
// types must not be. A function may have such a name if it returns a condition, an error or a
// channel. So may a function that returns nothing: it is called when the thing has happened.
func participleNames(t *Tree) []Finding {
	var found []Finding
	t.eachFunction(func(file *File, function *ast.FuncDecl) {
		if isBareParticiple(function.Name.Name) && returnsValue(function) {
			found = append(found, t.functionFinding(file, function, "returns a value and is named by a participle: name the value, or begin with a verb"))
		}
	})
	return found
}

// returnsValue reports whether a function has results other than one bool, error or channel.
func returnsValue(function *ast.FuncDecl) bool {
	results := function.Type.Results
	if results.NumFields() != 1 {
		return results.NumFields() > 1
	}
	result := results.List[0].Type
	_, isChannel := result.(*ast.ChanType)
	return !isChannel && !isIdent(result, "bool") && !isIdent(result, "error")
}

// parameterNames finds parameters that are named as their type: within the function the name
// then no longer means the type.
func parameterNames(t *Tree) []Finding {
	var found []Finding
	t.eachFunction(func(file *File, function *ast.FuncDecl) {
		ast.Inspect(function, func(node ast.Node) bool {
			signature, ok := node.(*ast.FuncType)
			if !ok {
				return true
			}
			for _, field := range signature.Params.List {
				typ := field.Type
				if star, ok := typ.(*ast.StarExpr); ok {
					typ = star.X
				}
				for _, name := range field.Names {
					if isIdent(typ, name.Name) {
						found = append(found, t.functionFinding(file, function, fmt.Sprintf("has a parameter %[1]s of type %[1]s: name its role", name.Name)))
					}
				}
			}
			return true
		})
	})
	return found
}

// progressNames finds variables, fields and parameters of type *testbed.Progress with another
// name than progress. A log is a record of events, and a logger is called logger.
func progressNames(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Go {
		check := func(names []*ast.Ident, typ ast.Expr) {
			star, ok := typ.(*ast.StarExpr)
			if !ok {
				return
			}
			selector, ok := star.X.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "Progress" || !isIdent(selector.X, "testbed") {
				return
			}
			for _, name := range names {
				if name.Name != "progress" && name.Name != "Progress" {
					found = append(found, Finding{Key: file.Name, Line: t.line(name.Pos()), Text: "calls a testbed.Progress " + name.Name + ": call it progress"})
				}
			}
		}
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Field:
				check(node.Names, node.Type)
			case *ast.ValueSpec:
				check(node.Names, node.Type)
			}
			return true
		})
	}
	return found
}
