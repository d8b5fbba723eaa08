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
