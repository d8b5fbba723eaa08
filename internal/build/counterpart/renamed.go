package counterpart

import (
	"cmp"
	"go/ast"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxHints bounds the places that hint names.
const maxHints = 3

// minSimilarity is the share of equal lines from which a declaration may be the one that is
// gone, under a new name.
const minSimilarity = 0.5

// hint returns advice on where a declaration that is gone may be now. It names declarations of
// the same package with similar source, or else declarations of the same name in other packages
// of the module. It returns "" if nothing is similar.
func (m *Modules) hint(gone *Declaration) string {
	places := m.similarDeclarations(gone)
	if len(places) == 0 {
		places = m.movedDeclarations(gone)
	}
	if len(places) == 0 {
		return ""
	}
	return "; look at " + strings.Join(places[:min(len(places), maxHints)], ", ")
}

// similarDeclarations returns the declarations that have most lines of the one that is gone, in the same
// package, the most similar first.
func (m *Modules) similarDeclarations(gone *Declaration) []string {
	importPath, identifier := packageOf(gone)
	module := m.byPath[gone.Module.Path]
	if module == nil || module.Dir == "" {
		return nil
	}
	files, err := m.files(filepath.Join(module.Dir, filepath.FromSlash(path.Dir(gone.Parts[0].File))))
	if err != nil {
		return nil
	}
	shares := map[string]float64{}
	for _, file := range files {
		if file.parse() != nil {
			continue
		}
		for _, name := range declaredNames(file.syntax) {
			parts, err := file.find(module.Dir, name)
			if err != nil || len(parts) != 1 {
				continue
			}
			share := similarity(anonymous(gone.Parts[0].normal, identifier), anonymous(parts[0].normal, name))
			if share >= minSimilarity {
				shares[importPath+"."+name] = share
			}
		}
	}
	return slices.SortedFunc(maps.Keys(shares), func(a, b string) int {
		return cmp.Or(cmp.Compare(shares[b], shares[a]), strings.Compare(a, b))
	})
}

// similarity returns the share of two texts' lines that a diff of them keeps. It ignores
// closing lines, which all functions have.
func similarity(from, to string) float64 {
	var kept, all int
	for _, edit := range lineEdits(splitLines(from), splitLines(to)) {
		switch {
		case strings.Trim(edit.text, "\t})") == "":
		case edit.kind == ' ':
			kept += 2 // a line of both texts
			all += 2
		default:
			all++
		}
	}
	return float64(kept) / float64(max(all, 1))
}

// anonymous returns the source of a declaration with "_" in place of its name, where the name
// first occurs.
func anonymous(source, name string) string {
	for _, element := range strings.Split(name, ".") {
		source = strings.Replace(source, element, "_", 1)
	}
	return source
}

// movedDeclarations returns the declarations of the same name in other packages of the module.
func (m *Modules) movedDeclarations(gone *Declaration) []string {
	_, identifier := packageOf(gone)
	module := m.byPath[gone.Module.Path]
	if module == nil || module.Dir == "" {
		return nil
	}
	var names []string
	// An unreadable directory has no hints.
	_ = filepath.WalkDir(module.Dir, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		files, err := m.files(dir)
		delete(m.packages, dir) // Not kept: the module may be large.
		if err != nil {
			return err
		}
		for _, file := range files {
			if parts, err := file.find(module.Dir, identifier); err == nil && len(parts) > 0 {
				names = append(names, path.Join(module.Path, path.Dir(parts[0].File))+"."+identifier)
				break
			}
		}
		return nil
	})
	return names
}

// packageOf returns the import path and the identifier of a declaration.
func packageOf(d *Declaration) (importPath, identifier string) {
	importPath = path.Join(d.Module.Path, path.Dir(d.Parts[0].File))
	return importPath, strings.TrimPrefix(d.Name, importPath+".")
}

// declaredNames returns the names of all functions, methods, types, variables and
// constants of a file.
func declaredNames(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			names = append(names, functionName(decl))
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				names = append(names, specNames(spec)...)
			}
		}
	}
	return names
}
