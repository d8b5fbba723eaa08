package lint

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
)

var (
	// codeSpan matches text between backticks on one line.
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	// qualifiedName matches a package's name with names behind it, such as cache.Log.Since.
	qualifiedName = regexp.MustCompile(`^([a-z]\w*)((?:\.[A-Za-z_]\w*)+)$`)
	// treePath matches a path within the module.
	treePath = regexp.MustCompile(`^(?:internal|test|cmd|docs|deploy)/[\w/.-]*\w$`)
)

// references finds code that documents name and that is not there: a path, or a name
// qualified by one of the module's packages. Names are looked up as words, wherever they
// are declared.
func references(t *Tree) []Finding {
	names, places := identifiers(t), allPaths(t)
	var found []Finding
	for _, file := range t.Other {
		if !isDocument(file.Name) {
			continue
		}
		number := 0
		for line := range strings.Lines(string(file.Data)) {
			number++
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				if text := span[1]; isStale(text, names, places) {
					found = append(found, Finding{Key: file.Name, Line: number, Text: text + " is not in the tree: name what there is"})
				}
			}
		}
	}
	return found
}

func isStale(text string, names, places map[string]bool) bool {
	if treePath.MatchString(text) {
		return !places[text]
	}
	m := qualifiedName.FindStringSubmatch(text)
	if m == nil || !places["internal/"+m[1]] || m[2] == ".go" { // a file's name stands alone
		return false
	}
	for _, name := range strings.Split(m[2][1:], ".") {
		if !names[name] {
			return true
		}
	}
	return false
}

// identifiers returns every identifier of the tree's Go code.
func identifiers(t *Tree) map[string]bool {
	names := map[string]bool{}
	for _, file := range t.Go {
		ast.Inspect(file.Syntax, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
	}
	return names
}

// allPaths returns the files of the tree and the directories above them.
func allPaths(t *Tree) map[string]bool {
	places := map[string]bool{}
	for _, files := range [][]*File{t.Go, t.Other} {
		for _, file := range files {
			for at := file.Name; at != "." && !places[at]; at = path.Dir(at) {
				places[at] = true
			}
		}
	}
	return places
}
