package analyze

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

func TestAccountsOfAServer(t *testing.T) {
	who := serverreport.Client{User: "system:serviceaccount:mon:agent", UserAgent: "agent"}
	cost := serverreport.ListCost{Requests: 100, Objects: 100_000, Scanned: 100_000, Bytes: 4e8, CPU: 60}
	shape := serverreport.Shape{Verb: "list", Resource: "pods", Version: "v1", Scope: serverreport.ScopeCluster, Revision: serverreport.RevisionUnset, Encoding: "json", Path: "range"}
	encoded, err := json.Marshal(serverreport.ListsReport{
		Time: time.Now(), Shapes: []serverreport.ListShape{{Shape: shape, ListCost: cost, Clients: []serverreport.Client{who}, Advice: []string{"Ask for protobuf.", "List in pages."}}},
		Clients: []serverreport.ListClient{{Client: who, ListCost: cost}},
	})
	file := filepath.Join(t.TempDir(), "lists.json")
	if err == nil {
		err = os.WriteFile(file, encoded, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := execute(t, "--accounts="+file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1. advice: agent (system:serviceaccount:mon:agent) sends GET /api/v1/pods", "Ask for protobuf. List in pages.", "0.10 processors"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if _, _, err := execute(t, "--accounts="+file, "--fail-on=list-cpu>0.05"); err == nil {
		t.Error("the condition holds, and there is no error")
	}
	if _, _, err := execute(t, "--accounts=accounts_test.go"); err == nil {
		t.Error("another file is read as accounts")
	}
}
