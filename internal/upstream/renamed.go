package upstream

import (
	"go/ast"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// maxHints bounds how many places hint names.
const maxHints = 3

// hint says where a declaration that is gone may be now: a declaration of the same
// package whose source is equal but for its name, or one of the same name in another
// package of the module. It is empty if there is none.
func (m *Modules) hint(gone *Declaration) string {
	places := m.renamed(gone)
	if len(places) == 0 {
		places = m.moved(gone)
	}
	if len(places) == 0 {
		return ""
	}
	return "; look at " + strings.Join(places[:min(len(places), maxHints)], ", ")
}

// renamed returns the declarations in the package of the one that is gone whose source
// differs in the name only.
func (m *Modules) renamed(gone *Declaration) []string {
	importPath, identifier := packageOf(gone)
	module := m.byPath[gone.Module.Path]
	if module == nil || module.Dir == "" {
		return nil
	}
	files, err := m.files(filepath.Join(module.Dir, filepath.FromSlash(path.Dir(gone.Parts[0].File))))
	if err != nil {
		return nil
	}
	var names []string
	for _, file := range files {
		if file.parse() != nil {
			continue
		}
		for _, name := range declaredNames(file.syntax) {
			parts, err := file.find(module.Dir, name)
			if err == nil && len(parts) == 1 && len(gone.Parts) == 1 && sameButName(gone.Parts[0].normal, identifier, parts[0].normal, name) {
				names = append(names, importPath+"."+name)
			}
		}
	}
	return names
}

// sameButName reports whether two sources are equal when each name's last element is
// replaced at its first place. A receiver's type may differ too.
func sameButName(from, fromName, to, toName string) bool {
	return anonymous(from, fromName) == anonymous(to, toName)
}

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
