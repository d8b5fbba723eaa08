package counterpart

import "go/ast"

// functionName returns a function's name. For a method it is TYPE.METHOD, without pointers and
// type parameters of the receiver.
func functionName(function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	for {
		switch expr := receiver.(type) {
		case *ast.StarExpr:
			receiver = expr.X
		case *ast.ParenExpr:
			receiver = expr.X
		case *ast.IndexExpr:
			receiver = expr.X
		case *ast.IndexListExpr:
			receiver = expr.X
		case *ast.Ident:
			return expr.Name + "." + function.Name.Name
		default:
			return function.Name.Name
		}
	}
}

// docOf returns the comment of a type, variable or constant, or nil.
func docOf(spec ast.Spec) *ast.CommentGroup {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Doc
	case *ast.ValueSpec:
		return spec.Doc
	}
	return nil
}

// specNames returns the names of the types, variables and constants that a specification
// declares.
func specNames(spec ast.Spec) []string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return []string{spec.Name.Name}
	case *ast.ValueSpec:
		var names []string
		for _, name := range spec.Names {
			names = append(names, name.Name)
		}
		return names
	}
	return nil
}
