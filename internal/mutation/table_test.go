package mutation

import "testing"

// TestTable checks that every mutation has one row, whose name is its own.
func TestTable(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for i, row := range Table() {
		if row.Mutation != Mutation(i+1) {
			t.Errorf("row %d, %q, is of mutation %d", i, row.Name, row.Mutation)
		}
		if row.Name == "" || names[row.Name] || row.Breaks == "" || row.Promise == "" {
			t.Errorf("row %d, %q, has no name of its own, or says too little", i, row.Name)
		}
		names[row.Name] = true
	}
	if len(names) != int(GapUntold) {
		t.Errorf("%d of %d mutations have a row", len(names), GapUntold)
	}
}

// TestNothingIsBroken checks that a build without a choice keeps all promises.
func TestNothingIsBroken(t *testing.T) {
	t.Parallel()
	for _, row := range Table() {
		if m := row.Mutation; On(m) || Sometimes(m) || After(m, 0) || Add(m, 1, 1) != 1 || len(RepeatLast(m, []int{1})) != 1 {
			t.Errorf("%s is on", row.Name)
		}
	}
}
