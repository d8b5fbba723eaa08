package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// typeNames finds package-level types named by a bare participle, in tests too.
// Such a name reads well in one sentence, but it does not name a thing. A search for
// it finds every use of the verb.
func typeNames(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Go {
		for _, decl := range file.Syntax.Decls {
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE || ast.IsGenerated(file.Syntax) {
				continue
			}
			for _, spec := range types.Specs {
				name := spec.(*ast.TypeSpec).Name
				if isBareParticiple(name.Name) {
					found = append(found, Finding{
						Key: file.Name + ":" + name.Name, Line: t.line(name.Pos()),
						Text: "is named by a participle: name the thing, as servedVersion for served",
					})
				}
			}
		}
	}
	return found
}

// isBareParticiple reports whether an identifier is a single word that is a
// participle: by its ending, or by the list of irregular ones.
func isBareParticiple(name string) bool {
	word := strings.ToLower(name[:1]) + name[1:]
	if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsUpper(r) || r == '_' }) {
		return false
	}
	if slices.Contains(nounsLikeParticiples(), word) {
		return false
	}
	return strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "ing") || slices.Contains(irregularParticiples(), word)
}

// caseNames finds methods of one type, and types of one package, whose names differ by
// case only. They sound the same, and a search that ignores case finds both. Run and run
// may stand together: Run starts and joins what run does.
func caseNames(t *Tree) []Finding {
	var found []Finding
	names := make(map[string]string)
	check := func(file *File, scope string, name *ast.Ident) {
		key := file.Dir() + " " + file.Syntax.Name.Name + " " + scope + strings.ToLower(name.Name)
		first, ok := names[key]
		if !ok {
			names[key] = name.Name
		} else if first != name.Name && name.Name != "run" && name.Name != "Run" {
			found = append(found, Finding{
				Key: file.Name + ":" + scope + name.Name, Line: t.line(name.Pos()),
				Text: "differs from " + first + " by case only: say in the name what is different",
			})
		}
	}
	for _, file := range t.Go {
		for _, decl := range file.Syntax.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if full := functionName(decl); decl.Recv != nil {
					check(file, strings.TrimSuffix(full, decl.Name.Name), decl.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						check(file, "", spec.Name)
					}
				}
			}
		}
	}
	return found
}
