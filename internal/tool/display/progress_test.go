package display

import (
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		terminal bool
		want     string
	}{
		{false, "11\n21\n"},
		{true, strings.Join([]string{"", "1", "2", "3", "4", "11", "21", "", ""}, "|")},
	} {
		var out strings.Builder
		now := time.Unix(0, 0)
		p := newProgress(&Line{out: &out, isTerminal: c.terminal}, func() time.Time { return now })
		for _, text := range []string{"1", "2", "3", "4", "11", "21"} {
			seconds, _ := time.ParseDuration(text + "s")
			now = time.Unix(0, 0).Add(seconds)
			p.Show(func() string { return text })
		}
		p.End()
		got := out.String()
		if c.terminal {
			var parts []string
			for part := range strings.SplitSeq(got, "\r") {
				parts = append(parts, strings.TrimSpace(part))
			}
			got = strings.Join(parts, "|")
		}
		if got != c.want {
			t.Errorf("terminal %v: got %q, want %q", c.terminal, got, c.want)
		}
	}
}

func TestLine(t *testing.T) {
	for terminal, want := range map[bool]string{true: "\rlong text\rshort    \r     \rdone\n", false: "long text\nshort\ndone\n"} {
		var out strings.Builder
		l := &Line{out: &out, isTerminal: terminal}
		l.Show("long text")
		l.Show("short")
		l.Print("%s", "done")
		l.End()
		if got := out.String(); got != want {
			t.Errorf("terminal %v: got %q, want %q", terminal, got, want)
		}
	}
	NewLine(nil).Show("nowhere")
}
