package bench

import "strings"

// document puts a main table, which may be nil, before those of sections that
// have rows, and notes behind them.
func document(format string, first *table, tables []titled, notes []string) string {
	var parts []string
	if first != nil {
		parts = append(parts, first.render(format))
	}
	for _, t := range tables {
		if len(t.table.rows) > 0 {
			parts = append(parts, t.title+":\n\n"+t.table.render(format))
		}
	}
	if format == "markdown" {
		for i := range notes {
			notes[i] = "- " + notes[i]
		}
	}
	return strings.Join(append(parts, strings.Join(notes, "\n")+"\n"), "\n")
}

// titled is a section's table; without rows it is not shown.
type titled struct {
	title string
	table table
}

func columnsOf(titles ...string) []column {
	columns := make([]column, len(titles))
	for i, title := range titles {
		columns[i].title = title
	}
	return columns
}
