package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

var (
	// codeSpan matches text between backticks on one line.
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	// qualifiedName matches a package's name with names after it, such as cache.Log.Since.
	qualifiedName = regexp.MustCompile(`^([a-z]\w*)((?:\.[A-Za-z_]\w*)+)$`)
	// treePath matches a path within the module.
	treePath = regexp.MustCompile(`^(?:internal|test|cmd|docs|deploy)/[\w/.-]*\w$`)
)

// references finds code that documents name and that is not there: a path, or a name
// qualified by one of the module's packages. Names are looked up as words, wherever they
// are declared. Fewer references than atLeast are a finding as well.
func references(t *Tree, atLeast int) []Finding {
	c := catalog{names: identifiers(t), paths: allPaths(t), packages: packageNames(t)}
	var found []Finding
	recognised := 0
	for _, file := range t.Other {
		if !isDocument(file.Name) {
			continue
		}
		number := 0
		for line := range strings.Lines(string(file.Data)) {
			number++
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				isReference, isStale := c.check(span[1])
				if isReference {
					recognised++
				}
				if isStale {
					found = append(found, Finding{Key: file.Name, Line: number, Text: span[1] + " is not in the tree: name what there is"})
				}
			}
		}
	}
	if recognised < atLeast {
		found = append(found, Finding{Key: "docs", Text: fmt.Sprintf("have %d references to code, expected at least %d: see whether the rule still recognises them", recognised, atLeast)})
	}
	return found
}

// catalog has what a reference can name.
type catalog struct {
	// names are identifiers, paths are files and directories, packages are names of
	// packages.
	names, paths, packages map[string]bool
}

// check reports whether a text has the form of a reference, and whether the tree lacks
// what it names.
func (c *catalog) check(text string) (isReference, isStale bool) {
	if treePath.MatchString(text) {
		return true, !c.paths[text]
	}
	m := qualifiedName.FindStringSubmatch(text)
	if m == nil || !c.packages[m[1]] || m[2] == ".go" { // a file's name stands alone
		return false, false
	}
	for _, name := range strings.Split(m[2][1:], ".") {
		if !c.names[name] {
			return true, true
		}
	}
	return true, false
}

// packageNames returns the last parts of the paths of packages below internal.
func packageNames(t *Tree) map[string]bool {
	names := map[string]bool{}
	for _, file := range t.Go {
		if internalPackage(file.Dir()) != "" {
			names[path.Base(file.Dir())] = true
		}
	}
	return names
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
