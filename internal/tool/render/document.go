package render

import "strings"

// Document joins a main table, which may be nil, the further tables that have rows,
// and notes. format is "markdown", or any other for a terminal.
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

// TitledTable is a table with a title. A Document leaves it out if it has no rows.
type TitledTable struct {
	Title string
	Table Table
}
