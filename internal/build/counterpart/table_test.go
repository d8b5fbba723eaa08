package counterpart

import (
	"reflect"
	"strings"
	"testing"
)

func TestTableIsReadAsWritten(t *testing.T) {
	table, err := NewTable([]Mark{
		markOf("Same", "kube.two", 9), markOf("Changed", "kube.one", 3), markOf("Same", "kube.one", 5), markOf("Same", "kube.one", 7),
	}, fixtures(t, "old"))
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseTable(table.Format())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read, table) {
		t.Errorf("read %+v, wrote %+v", read, table)
	}
	want := []string{
		"# accepted at k8s.io/apiserver v0.1.0",
		"# accepted at k8s.io/kubernetes v1.1.0",
		kinds + "Changed\tk8s.io/apiserver\t" + table.Rows[0].Digest + "\tkube.one",
		kinds + "Same\tk8s.io/apiserver\t" + table.Rows[1].Digest + "\tkube.one, kube.two",
	}
	if got := string(table.Format()); !strings.HasSuffix(got, "#\n"+strings.Join(want, "\n")+"\n") {
		t.Errorf("the table is\n%s\nwant at its end\n%s", got, strings.Join(want, "\n"))
	}
}

func TestTableOfAMissingDeclaration(t *testing.T) {
	_, err := NewTable([]Mark{markOf("Gone", "kube.one", 3)}, fixtures(t, "new"))
	if err == nil || !strings.HasPrefix(err.Error(), "internal/apiserver/kube/chain.go:3: ") {
		t.Errorf("error %v, want one with the place of the mark", err)
	}
}

func TestFaultyTable(t *testing.T) {
	if _, err := ParseTable([]byte("# head\na\tb\tc\n")); err == nil || !strings.Contains(err.Error(), "line 2 has 3 columns instead of 4") {
		t.Errorf("error %v, want one with the line", err)
	}
}
