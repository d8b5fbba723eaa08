package counterpart

import "go/ast"

// functionName returns a function's name, after that of the receiver's type for a
// method. Pointers and type parameters of receivers are left out.
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

// docOf returns the comment of a type, variable or constant.
func docOf(spec ast.Spec) *ast.CommentGroup {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Doc
	case *ast.ValueSpec:
		return spec.Doc
	}
	return nil
}

// specNames returns the names that a specification declares. An import declares none
// that could be a counterpart.
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
