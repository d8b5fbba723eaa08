package render

import (
	"strings"
	"unicode/utf8"
)

// Table is text in columns. The first column is aligned left, the others
// right. Columns of one group stand next to one another.
type Table struct {
	Columns []Column
	rows    [][]string
}

type Column struct {
	Group string // shown above the titles; may be empty
	Title string
}

// render renders for a terminal, or as Markdown if that is the format.
func (t *Table) render(format string) string {
	if format == "markdown" {
		return t.markdown()
	}
	return t.aligned()
}

func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// aligned renders for a terminal: groups, titles, rows.
func (t *Table) aligned() string {
	titles, grouped := make([]string, len(t.Columns)), false
	for i, c := range t.Columns {
		titles[i] = c.Title
		grouped = grouped || c.Group != ""
	}
	widths := t.widths(titles)
	var b strings.Builder
	if grouped {
		b.WriteString(groupLine(t.Columns, widths))
	}
	for _, row := range append([][]string{titles}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch i {
			case 0:
				line.WriteString(cell + pad)
			default:
				line.WriteString("  " + pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// widths also makes the columns of a group wide enough for its name.
func (t *Table) widths(titles []string) []int {
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{titles}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i := 0; i < len(t.Columns); {
		end, total := groupEnd(t.Columns, i), 0
		for j := i; j < end; j++ {
			total += widths[j] + 2
		}
		if lack := utf8.RuneCountInString(t.Columns[i].Group) + 2 - total; lack > 0 {
			widths[end-1] += lack
		}
		i = end
	}
	return widths
}

func groupEnd(columns []Column, start int) int {
	end := start + 1
	for end < len(columns) && columns[end].Group == columns[start].Group {
		end++
	}
	return end
}

// groupLine writes each group's name over its columns, filled up with dashes.
// The widths leave room for the names.
func groupLine(columns []Column, widths []int) string {
	var line strings.Builder
	for i := 0; i < len(columns); {
		end, total := groupEnd(columns, i), -2
		for j := i; j < end; j++ {
			total += widths[j] + 2
		}
		if i > 0 {
			line.WriteString("  ")
		}
		name := columns[i].Group
		lack := total - utf8.RuneCountInString(name)
		if name != "" && lack > 1 {
			name, lack = name+" "+strings.Repeat("-", lack-1), 0
		}
		line.WriteString(name + strings.Repeat(" ", lack))
		i = end
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}

// markdown renders a pipe table; groups become part of the titles.
func (t *Table) markdown() string {
	var b strings.Builder
	titles, rules := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = strings.TrimSpace(c.Group + " " + c.Title)
		rules[i] = "---:"
	}
	rules[0] = "---"
	for _, row := range append([][]string{titles, rules}, t.rows...) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String()
}
