package render

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextIsWrapped(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"one two three", 0, "one two three"},
		{"one two three", 13, "one two three"},
		{"one two three", 9, "one two\n  three"},
		{"one two three four", 7, "one two\n  three\n  four"},
		{"one unbreakable two", 5, "one\n  unbreakable\n  two"},
		{"a – b", 3, "a –\n  b"},
	} {
		if got := Wrap(c.text, "  ", c.width); got != c.want {
			t.Errorf("%q in %d: got %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestTableFits(t *testing.T) {
	for _, width := range []int{0, 20, 40, 60, 80, 200} {
		table := Table{Columns: ColumnsOf("CLIENT", "CPU", "REQUESTS", "BYTES LOOKED AT")}
		table.Add("an-agent-with-a-name (system:serviceaccount:of-a-long-namespace:and-a-name)", "1.5s", "12345", "1.2GB")
		table.Add("ab", "12s", "1", "1B")
		table.Fit(width)
		text := Document(Terminal, &table, nil, nil)
		for _, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); width > 0 && n > width {
				t.Errorf("%d: a line has %d characters: %s", width, n, line)
			}
		}
		if whole := strings.Contains(text, "of-a-long-namespace") && strings.Contains(text, "LOOKED AT"); whole != (width == 0 || width == 200) {
			t.Errorf("%d: got\n%s", width, text)
		}
		if !strings.Contains(text, "CPU") || !strings.Contains(text, "1.5s") || width >= 40 && !strings.Contains(text, "an-agent") {
			t.Errorf("%d: the columns that matter are missing in\n%s", width, text)
		}
	}
}
