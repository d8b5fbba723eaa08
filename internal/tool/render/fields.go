package render

// Fields are the columns of a table of values, each with the function that formats its cells.
type Fields[T any] []field[T]

type field[T any] struct {
	column Column
	cell   func(T) string
}

// Add adds a column.
func (f *Fields[T]) Add(title string, cell func(T) string) { f.AddToGroup("", title, cell) }

// AddToGroup adds a column of a group.
func (f *Fields[T]) AddToGroup(group, title string, cell func(T) string) {
	*f = append(*f, field[T]{Column{Group: group, Title: title}, cell})
}

// Table returns a table with a row for each value.
func (f Fields[T]) Table(values []T) *Table {
	t := &Table{}
	for _, x := range f {
		t.Columns = append(t.Columns, x.column)
	}
	for _, v := range values {
		cells := make([]string, len(f))
		for i, x := range f {
			cells[i] = x.cell(v)
		}
		t.Add(cells...)
	}
	return t
}
