package render

import "strings"

// Document puts a main table, which may be nil, before those of sections that
// have rows, and notes behind them.
func Document(format string, first *Table, tables []TitledTable, notes []string) string {
	var parts []string
	if first != nil {
		parts = append(parts, first.render(format))
	}
	for _, t := range tables {
		if len(t.Table.rows) > 0 {
			parts = append(parts, t.Title+":\n\n"+t.Table.render(format))
		}
	}
	if format == "markdown" {
		for i := range notes {
			notes[i] = "- " + notes[i]
		}
	}
	return strings.Join(append(parts, strings.Join(notes, "\n")+"\n"), "\n")
}

// TitledTable is a section's table; without rows it is not shown.
type TitledTable struct {
	Title string
	Table Table
}

func ColumnsOf(titles ...string) []Column {
	columns := make([]Column, len(titles))
	for i, title := range titles {
		columns[i].Title = title
	}
	return columns
}
