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

// maxHints bounds how many places hint names.
const maxHints = 3

// minSimilarity is the share of equal lines from which a declaration may be another one
// under a new name.
const minSimilarity = 0.5

// hint says where a declaration that is gone may be now. It names declarations of the
// same package with similar source, or of the same name in other packages of the module.
// It is empty if there is none.
func (m *Modules) hint(gone *Declaration) string {
	places := m.similar(gone)
	if len(places) == 0 {
		places = m.moved(gone)
	}
	if len(places) == 0 {
		return ""
	}
	return "; look at " + strings.Join(places[:min(len(places), maxHints)], ", ")
}

// similar returns the declarations in the package of the one that is gone that have most
// of its lines, the most similar first.
func (m *Modules) similar(gone *Declaration) []string {
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

// similarity returns the share of two texts' lines that a diff of them keeps. Closing
// lines are left out: all functions have them.
func similarity(from, to string) float64 {
	kept, all := 0, 0
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

// anonymous returns a source without its own name at the first place.
func anonymous(source, name string) string {
	for _, element := range strings.Split(name, ".") {
		source = strings.Replace(source, element, "_", 1)
	}
	return source
}

// moved returns declarations of the same name in other packages of the module.
func (m *Modules) moved(gone *Declaration) []string {
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

// packageOf cuts the name of a declaration that was found.
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
