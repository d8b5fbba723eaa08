package counterpart

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// comparison is one counterpart in two versions of Kubernetes.
type comparison struct {
	marks []Mark
	from  *Declaration
	// to is nil if the declaration is gone.
	to *Declaration
}

// isChanged reports whether the declaration is gone, or differs in more than comments.
func (c *comparison) isChanged() bool { return c.to == nil || c.from.Digest() != c.to.Digest() }

// Compare writes the difference of each marked declaration between two sets of modules, module
// by module, and the numbers of unchanged ones. Differences include comments, but a declaration
// of which only comments changed counts as unchanged.
func Compare(w io.Writer, marks []Mark, from, to *Modules) error {
	comparisons := map[string][]*comparison{}
	for _, group := range byName(marks) {
		c, err := compareOne(group, from, to)
		if err != nil {
			return err
		}
		comparisons[c.from.Module.Path] = append(comparisons[c.from.Module.Path], c)
	}
	out := &printer{w: w}
	var changed, gone, all int
	for _, module := range slices.Sorted(maps.Keys(comparisons)) {
		list := comparisons[module]
		changedHere, goneHere := count(list)
		all, changed, gone = all+len(list), changed+changedHere, gone+goneHere
		out.printf("## %s %s -> %s: %d of %d changed, %d gone\n", module, from.Version(module), to.Version(module), changedHere, len(list), goneHere)
		for _, c := range list {
			if c.isChanged() {
				c.write(out, to)
			}
		}
		out.printf("\n")
	}
	out.printf("All modules: %d declarations, %d unchanged, %d changed, %d gone or renamed.\n", all, all-changed-gone, changed, gone)
	return out.err
}

func compareOne(marks []Mark, from, to *Modules) (*comparison, error) {
	c := &comparison{marks: marks}
	var err error
	if c.from, err = from.Find(marks[0].Name); err != nil {
		return nil, fmt.Errorf("%s: %w", marks[0].Position(), err)
	}
	if c.to, err = to.Find(marks[0].Name); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	return c, nil
}

func count(list []*comparison) (changed, gone int) {
	for _, c := range list {
		switch {
		case c.to == nil:
			gone++
		case c.isChanged():
			changed++
		}
	}
	return changed, gone
}

// write writes a heading with our declarations, and a diff of each part that changed.
func (c *comparison) write(out *printer, to *Modules) {
	out.printf("\n### %s\n", c.from.Name)
	seen := map[string]bool{}
	for _, mark := range c.marks {
		if !seen[mark.Ours] {
			out.printf("beside %s (%s)\n", mark.Ours, mark.Position())
		}
		seen[mark.Ours] = true
	}
	if c.to == nil {
		out.printf("GONE from %s %s%s\n", c.from.Module.Path, to.Version(c.from.Module.Path), to.hint(c.from))
		return
	}
	parts := map[string]Part{}
	for _, part := range c.to.Parts {
		parts[part.Name] = part
	}
	for _, old := range c.from.Parts {
		// A part that is gone has the zero value here: no text.
		now, exists := parts[old.Name]
		delete(parts, old.Name)
		if !exists || old.normal != now.normal {
			out.diff(c.from.Module, c.to.Module, old, now)
		}
	}
	for _, part := range c.to.Parts {
		if _, added := parts[part.Name]; added {
			out.diff(c.from.Module, c.to.Module, Part{}, part)
		}
	}
}

// printer writes text and remembers the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// diff writes one part as a unified diff, with lines numbered as in its file.
func (p *printer) diff(fromModule, toModule Module, from, to Part) {
	p.printf("--- %s\n+++ %s\n%s", fileHeader(fromModule, from), fileHeader(toModule, to), unifiedDiff(from.Text, to.Text, from.Line, to.Line))
}

func fileHeader(module Module, part Part) string {
	if part.File == "" {
		return "(none)"
	}
	return strings.Join([]string{module.Path + "@" + module.Version, part.File}, "/")
}
