package top

import (
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/tool/display"
)

// style is the look of text on a terminal: the parameters of an escape sequence of the kind SGR
// (select graphic rendition).
type style string

const (
	plain    style = ""
	bold     style = "1"
	dim      style = "2"
	good     style = "32"
	warning  style = "33"
	critical style = "1;31"
	accent   style = "36"
)

// page collects the lines of a view. Callers must pass names through display.Clean before they add
// them.
type page struct {
	// width is the terminal's width in characters; 0 means no bound.
	width int
	// wide shows all columns and all rows of tables.
	wide bool
	// color enables styles.
	color bool
	lines []string
}

// withStyle returns text with the escape sequences of a style, if the page has color.
func (p *page) withStyle(s style, text string) string {
	if !p.color || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// line adds a line, cut to the page's width.
func (p *page) line(s style, text string) {
	p.lines = append(p.lines, p.withStyle(s, cut(text, p.width)))
}

// blank adds a blank line, unless the page is empty.
func (p *page) blank() {
	if len(p.lines) > 0 {
		p.lines = append(p.lines, "")
	}
}

// title adds a heading, with a blank line before it.
func (p *page) title(text string) {
	p.blank()
	p.line(bold, text)
}

// paragraph adds text with lines broken at spaces. The first line starts with indent. The following
// lines start with as many blanks.
func (p *page) paragraph(s style, indent, text string) {
	room := 100
	if p.width > 0 {
		room = min(room, p.width)
	}
	room = max(20, room-utf8.RuneCountInString(indent))
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			p.line(s, indent+line)
			indent = strings.Repeat(" ", utf8.RuneCountInString(indent))
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		p.line(s, indent+line)
	}
}

// cut shortens text to a width in characters; 0 means no bound.
func cut(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

// column is the heading and the layout of a table's column.
type column struct {
	head string
	// right aligns the cells to the right, for numbers.
	right bool
	// wide columns are shown only on wide pages.
	wide bool
	// maxWidth bounds the column's width on a page that is not wide; 0 means no bound.
	maxWidth int
}

// cell is a text with its style, in a table or as a line.
type cell struct {
	text  string
	style style
}

// text, count, size and seconds return cells with a plain text, a count, bytes and a duration.
func text(s string) cell                               { return cell{text: s} }
func count[N int | int64 | uint64 | float64](n N) cell { return text(display.Count(n)) }
func size[N int64 | uint64 | float64](bytes N) cell    { return text(display.Size(bytes)) }
func seconds(s float64) cell                           { return text(display.Seconds(s)) }

// name returns a cell with text that a client chose. The text is cleaned.
func name(s string) cell { return cell{text: display.Clean(s)} }

// flag returns a cell whose style is badStyle if bad is true.
func flag(s string, bad bool, badStyle style) cell {
	if bad {
		return cell{s, badStyle}
	}
	return cell{text: s}
}

// gap is the text between two columns.
const gap = "  "

// maxRows bounds the rows of a table on a page that is not wide.
const maxRows = 20

// table adds a table. It leaves out the columns that do not fit the width of the page.
func (p *page) table(columns []column, rows [][]cell) {
	hidden := 0
	if !p.wide && len(rows) > maxRows {
		hidden = len(rows) - maxRows
		rows = rows[:maxRows]
	}
	widths := p.widths(columns, rows)
	heads := make([]cell, len(columns))
	for i, c := range columns {
		heads[i] = cell{c.head, dim}
	}
	for _, row := range append([][]cell{heads}, rows...) {
		var b strings.Builder
		for i, c := range columns {
			if widths[i] < 0 {
				continue
			}
			shown := cut(row[i].text, widths[i])
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(shown))
			if b.Len() > 0 {
				b.WriteString(gap)
			}
			if c.right {
				b.WriteString(space + p.withStyle(row[i].style, shown))
			} else {
				b.WriteString(p.withStyle(row[i].style, shown) + space)
			}
		}
		p.lines = append(p.lines, strings.TrimRight(b.String(), " "))
	}
	if hidden > 0 {
		p.line(dim, "… "+display.Count(hidden)+" more: -o wide, or w")
	}
}

// widths returns the width of each column, or -1 for a column that is left out.
func (p *page) widths(columns []column, rows [][]cell) []int {
	widths := make([]int, len(columns))
	total := 0
	for i, c := range columns {
		if c.wide && !p.wide {
			widths[i] = -1
			continue
		}
		widths[i] = utf8.RuneCountInString(c.head)
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
		if c.maxWidth > 0 && !p.wide {
			widths[i] = min(widths[i], max(c.maxWidth, utf8.RuneCountInString(c.head)))
		}
		if i > 0 {
			total += len(gap)
		}
		if total += widths[i]; p.width > 0 && total > p.width {
			if i == 0 {
				widths[i] = p.width
				continue
			}
			total -= widths[i] + len(gap)
			widths[i] = -1
		}
	}
	return widths
}
