package top

// field is a column of a table of values, with the function that returns its cells.
type field[T any] struct {
	column
	cell func(*T) cell
}

// textField returns a field of texts. A column of maxWidth 0 has no bound.
func textField[T any](head string, maxWidth int, cell func(*T) cell) field[T] {
	return field[T]{column{head: head, maxWidth: maxWidth}, cell}
}

// numberField returns a field of numbers.
func numberField[T any](head string, cell func(*T) cell) field[T] {
	return field[T]{column{head: head, right: true}, cell}
}

// onlyWide returns the field for a column that only wide pages show.
func (f field[T]) onlyWide() field[T] {
	f.wide = true
	return f
}

// drawTable draws a table with a row for each value.
func drawTable[T any](p *page, values []T, fields []field[T]) {
	columns := make([]column, len(fields))
	for i, f := range fields {
		columns[i] = f.column
	}
	rows := make([][]cell, len(values))
	for i := range values {
		for _, f := range fields {
			rows[i] = append(rows[i], f.cell(&values[i]))
		}
	}
	p.table(columns, rows)
}
