package render

import "testing"

func TestTable(t *testing.T) {
	table := Table{Columns: []Column{{"", "workload"}, {"A", "p50"}, {"A", "p99"}, {"long", "x"}}}
	table.Add("get", "1", "22", "3")
	for format, want := range map[string]string{
		Terminal: "          A ------  long\n" +
			"workload  p50  p99     x\n" +
			"get         1   22     3\n",
		Markdown: "| workload | A p50 | A p99 | long x |\n" +
			"| --- | ---: | ---: | ---: |\n" +
			"| get | 1 | 22 | 3 |\n",
	} {
		if got := table.render(format); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", format, got, want)
		}
	}
}
