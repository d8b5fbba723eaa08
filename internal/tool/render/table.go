package render

import (
	"strings"
	"unicode/utf8"
)

// Table is text in columns. The first column is aligned left, the others right.
type Table struct {
	Columns []Column
	rows    [][]string
}

// Column is the heading of a column. Neighbouring columns with the same Group share one
// heading above their titles.
type Column struct {
	Group string // may be empty
	Title string
}

// ColumnsOf returns columns without groups.
func ColumnsOf(titles ...string) []Column {
	columns := make([]Column, len(titles))
	for i, title := range titles {
		columns[i].Title = title
	}
	return columns
}

// render renders the table as Markdown if that is the format, else for a terminal.
func (t *Table) render(format string) string {
	if format == "markdown" {
		return t.markdown()
	}
	return t.aligned()
}

// Add adds a row, which has a cell for each column.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Rows returns the rows that were added.
func (t *Table) Rows() [][]string { return t.rows }

// aligned renders the table for a terminal: a line of groups if there are any, the
// titles, the rows.
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

// widths are those of the columns. The last column of a group is widened if the group's
// name needs more space.
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
		if missing := utf8.RuneCountInString(t.Columns[i].Group) + 2 - total; missing > 0 {
			widths[end-1] += missing
		}
		i = end
	}
	return widths
}

// groupEnd is the index behind the last column of the group that begins at start.
func groupEnd(columns []Column, start int) int {
	end := start + 1
	for end < len(columns) && columns[end].Group == columns[start].Group {
		end++
	}
	return end
}

// groupLine writes each group's name above its columns and fills the rest with dashes.
// The columns must be wide enough (widths).
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
		free := total - utf8.RuneCountInString(name)
		if name != "" && free > 1 {
			name, free = name+" "+strings.Repeat("-", free-1), 0
		}
		line.WriteString(name + strings.Repeat(" ", free))
		i = end
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}

// markdown renders a Markdown table. The group of a column becomes the beginning of its
// title.
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
