package bench

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// table is text in columns. The first column is aligned left, the others
// right. Columns of one group stand next to one another.
type table struct {
	columns []column
	rows    [][]string
}

type column struct {
	group string // shown above the titles; may be empty
	title string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// renderer is how a table of a report in a format is rendered.
func renderer(format string) func(*table) string {
	if format == "markdown" {
		return (*table).markdown
	}
	return (*table).aligned
}

// aligned renders for a terminal: groups, titles, rows.
func (t *table) aligned() string {
	titles, grouped := make([]string, len(t.columns)), false
	for i, c := range t.columns {
		titles[i] = c.title
		grouped = grouped || c.group != ""
	}
	widths := t.widths(titles)
	var b strings.Builder
	if grouped {
		b.WriteString(groupLine(t.columns, widths))
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
func (t *table) widths(titles []string) []int {
	widths := make([]int, len(t.columns))
	for _, row := range append([][]string{titles}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i := 0; i < len(t.columns); {
		end, total := groupEnd(t.columns, i), 0
		for j := i; j < end; j++ {
			total += widths[j] + 2
		}
		if lack := utf8.RuneCountInString(t.columns[i].group) + 2 - total; lack > 0 {
			widths[end-1] += lack
		}
		i = end
	}
	return widths
}

func groupEnd(columns []column, start int) int {
	end := start + 1
	for end < len(columns) && columns[end].group == columns[start].group {
		end++
	}
	return end
}

// groupLine writes each group's name over its columns, filled up with dashes.
// The widths leave room for the names.
func groupLine(columns []column, widths []int) string {
	var line strings.Builder
	for i := 0; i < len(columns); {
		end, total := groupEnd(columns, i), -2
		for j := i; j < end; j++ {
			total += widths[j] + 2
		}
		if i > 0 {
			line.WriteString("  ")
		}
		name := columns[i].group
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
func (t *table) markdown() string {
	var b strings.Builder
	titles, rules := make([]string, len(t.columns)), make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = strings.TrimSpace(c.group + " " + c.title)
		rules[i] = "---:"
	}
	rules[0] = "---"
	for _, row := range append([][]string{titles, rules}, t.rows...) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String()
}

// formatBytes uses powers of ten and three significant digits.
func formatBytes(n int64) string {
	const units = "kMGTPE"
	if n < 0 {
		return "-" + formatBytes(-n)
	}
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	return formatNumber(value) + " " + units[unit:unit+1] + "B"
}

// formatNumber gives about three significant digits.
func formatNumber(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.9995 || v == 0:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// formatRatio says how many times b is contained in a.
func formatRatio(a, b float64) string {
	if a <= 0 || b <= 0 {
		return "-"
	}
	return formatNumber(a/b) + "x"
}
