package render

import "strings"

// Document returns a text of a main table (or nil), of the further tables that have rows, and of
// notes. The text is Markdown if format is Markdown, otherwise for a terminal. Document changes the
// notes of a Markdown text in place.
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
	if format == Markdown {
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
