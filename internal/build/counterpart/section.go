package counterpart

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// DocumentFile is the document with the section that lists all counterparts, relative to
// the module's root.
const DocumentFile = "docs/design/kubernetes.md"

const (
	sectionBegin = `<!-- Counterparts, written by "make upstream-accept" from the marks in comments. Do not edit. -->` + "\n"
	sectionEnd   = "<!-- End of the counterparts. -->\n"
	commonPrefix = "k8s.io/"
)

// Section returns what stands between the marks of the section: for each of our packages
// a table of its files, with the counterparts in the order of the file.
func Section(marks []Mark) string {
	sorted := slices.Clone(marks)
	slices.SortStableFunc(sorted, func(a, b Mark) int {
		return cmp.Or(strings.Compare(path.Dir(a.File), path.Dir(b.File)), strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	var b strings.Builder
	fmt.Fprintf(&b, "\nPaths begin with `%s`, unless they begin with another host.\n", commonPrefix)
	for len(sorted) > 0 {
		dir := path.Dir(sorted[0].File)
		fmt.Fprintf(&b, "\n| file of `%s` | upstream |\n| --- | --- |\n", dir)
		for len(sorted) > 0 && path.Dir(sorted[0].File) == dir {
			file, count := sorted[0].File, 0
			for count < len(sorted) && sorted[count].File == file {
				count++
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", path.Base(file), cell(sorted[:count]))
			sorted = sorted[count:]
		}
	}
	return b.String() + "\n"
}

// cell returns the counterparts of one file, each package once.
func cell(marks []Mark) string {
	var packages []string
	names := map[string][]string{}
	for _, mark := range marks {
		importPath, name := splitShown(mark.Name)
		if !slices.Contains(packages, importPath) {
			packages = append(packages, importPath)
		}
		if span := "`" + name + "`"; !slices.Contains(names[importPath], span) {
			names[importPath] = append(names[importPath], span)
		}
	}
	var shown []string
	for _, importPath := range packages {
		if list := names[importPath]; len(list) > 1 {
			shown = append(shown, "`"+importPath+"`: "+strings.Join(list, ", "))
		} else {
			shown = append(shown, "`"+importPath+"."+list[0][1:])
		}
	}
	return strings.Join(shown, "; ")
}

// splitShown cuts a counterpart's name at the first dot of its last element, and removes
// the prefix that most have.
func splitShown(name string) (importPath, identifier string) {
	slash := strings.LastIndexByte(name, '/') + 1
	last, identifier, _ := strings.Cut(name[slash:], ".")
	return strings.TrimPrefix(name[:slash]+last, commonPrefix), identifier
}

// withSection returns the document with a new section.
func withSection(document []byte, section string) ([]byte, error) {
	before, rest, begins := bytes.Cut(document, []byte(sectionBegin))
	_, after, ends := bytes.Cut(rest, []byte(sectionEnd))
	if !begins || !ends {
		return nil, fmt.Errorf("%s lacks the lines between which the counterparts are written: %q and %q", DocumentFile, sectionBegin, sectionEnd)
	}
	return slices.Concat(before, []byte(sectionBegin), []byte(section), []byte(sectionEnd), after), nil
}
