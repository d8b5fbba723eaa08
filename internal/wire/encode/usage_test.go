package encode

import (
	"bytes"
	"testing"
)

// TestUsageIsTheBudget keeps bytes of all kinds. The sum of the memos' usage must be what the
// budget has counted.
func TestUsageIsTheBudget(t *testing.T) {
	w := newFixture(t)
	g := groups(t, 40, 40)[0]
	plain, pretty := w.form(t, JSON), w.form(t, PrettyJSON)
	plain.cfg.Name, pretty.cfg.Name = "v1 json", "v1 json pretty"
	w.write(t, plain, g)
	var out bytes.Buffer
	if err := newList(plain, []group{g}, 0, len(g.entries)).Write(&out, Gzip); err != nil {
		t.Fatal(err)
	}
	if _, _, err := pretty.item(g.memo, g.entries, 3); err != nil {
		t.Fatal(err)
	}
	byForm := map[string]int64{}
	g.memo.Usage(byForm)
	if sum := byForm["v1 json"] + byForm["v1 json pretty"]; len(byForm) != 2 || sum != w.budget.UsedBytes() || byForm["v1 json"] <= byForm["v1 json pretty"] {
		t.Errorf("the memo has %v, the budget %d bytes", byForm, w.budget.UsedBytes())
	}
	g.memo.Retire(w.budget)
	left := map[string]int64{}
	if g.memo.Usage(left); len(left) != 0 {
		t.Errorf("a retired memo keeps %v", left)
	}
}
