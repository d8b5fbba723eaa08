package render

import (
	"strings"
	"unicode/utf8"
)

// Table is text in columns. The first column is aligned left, all further columns right.
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

// Add adds a row, which has a cell for each column. The table keeps the slice.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Rows returns the rows that were added, without a copy.
func (t *Table) Rows() [][]string { return t.rows }

// render returns the table as Markdown if format is Markdown, otherwise for a terminal.
func (t *Table) render(format string) string {
	if format == Markdown {
		return t.markdown()
	}
	return t.plainText()
}

// gap is the space between two columns on a terminal.
const gap = "  "

// plainText returns the table for a terminal: a line of groups if there are any, the titles, and
// the rows.
func (t *Table) plainText() string {
	titles := make([]string, len(t.Columns))
	hasGroups := false
	for i, c := range t.Columns {
		titles[i] = c.Title
		hasGroups = hasGroups || c.Group != ""
	}
	lines := append([][]string{titles}, t.rows...)
	widths := t.widths(lines)
	var b strings.Builder
	if hasGroups {
		b.WriteString(t.groupLine(widths))
	}
	for _, cells := range lines {
		var line strings.Builder
		for i, cell := range cells {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + padding)
			} else {
				line.WriteString(gap + padding + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// widths returns the widths of the columns, in characters. The last column of a group is wide
// enough for the group's name.
func (t *Table) widths(lines [][]string) []int {
	widths := make([]int, len(t.Columns))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i := 0; i < len(t.Columns); {
		end := groupEnd(t.Columns, i)
		missing := utf8.RuneCountInString(t.Columns[i].Group) - groupWidth(widths[i:end])
		widths[end-1] += max(0, missing)
		i = end
	}
	return widths
}

// groupEnd returns the index after the last column of the group that starts at start.
func groupEnd(columns []Column, start int) int {
	end := start + 1
	for end < len(columns) && columns[end].Group == columns[start].Group {
		end++
	}
	return end
}

// groupWidth returns the width of neighbouring columns with the gaps between them.
func groupWidth(widths []int) int {
	total := (len(widths) - 1) * len(gap)
	for _, width := range widths {
		total += width
	}
	return total
}

// groupLine returns a line with each group's name above its columns, filled up with dashes.
// widths must come from t.widths, which makes room for the names.
func (t *Table) groupLine(widths []int) string {
	var line strings.Builder
	for i := 0; i < len(t.Columns); {
		if i > 0 {
			line.WriteString(gap)
		}
		end := groupEnd(t.Columns, i)
		name := t.Columns[i].Group
		padding := groupWidth(widths[i:end]) - utf8.RuneCountInString(name)
		if name != "" && padding > 1 {
			name += " " + strings.Repeat("-", padding-1)
			padding = 0
		}
		line.WriteString(name + strings.Repeat(" ", padding))
		i = end
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}

// markdown returns a Markdown table. Titles start with the group of their column. Cells must not
// have a "|": it is not escaped.
func (t *Table) markdown() string {
	titles := make([]string, len(t.Columns))
	alignments := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = strings.TrimSpace(c.Group + " " + c.Title)
		alignments[i] = "---:"
	}
	alignments[0] = "---"
	var b strings.Builder
	for _, cells := range append([][]string{titles, alignments}, t.rows...) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

// minFirstWidth is the width to which Fit cuts the first column before it removes other columns.
const minFirstWidth = 32

// Fit makes the lines of a table have at most width characters. It removes columns from the right,
// but not the second one, and cuts the cells of the first column. A width of 0 is unbounded.
func (t *Table) Fit(width int) {
	if width <= 0 || len(t.Columns) < 2 {
		return
	}
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	widths := t.widths(append([][]string{titles}, t.rows...))
	others := func() int { return groupWidth(widths) - widths[0] }
	for len(widths) > 2 && min(widths[0], minFirstWidth)+others() > width {
		widths = widths[:len(widths)-1]
	}
	t.Columns = t.Columns[:len(widths)]
	for i, cells := range t.rows {
		t.rows[i] = append([]string{Shorten(cells[0], max(3, width-others()))}, cells[1:len(widths)]...)
	}
}
