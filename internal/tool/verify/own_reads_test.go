package verify_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/verify"
)

// newReplicaAPI starts a server that says that it is a replica, and answered a share of the reads of
// both resources itself. It tells no more once the definition is gone.
func newReplicaAPI(t *testing.T, passedOn uint64) *rest.Config {
	t.Helper()
	var group atomic.Value
	return newProxyAPI(t, newFakeAPI(t, ""), func(w http.ResponseWriter, req *http.Request, upstream http.Handler) {
		if _, definition, is := strings.Cut(req.URL.Path, "/customresourcedefinitions/registers."); is && req.Method == http.MethodDelete {
			group.CompareAndSwap(definition, "")
		} else if rest, is := strings.CutPrefix(req.URL.Path, "/apis/"); is && strings.Contains(rest, ".verify.millrace.dev/") {
			name, _, _ := strings.Cut(rest, "/")
			group.CompareAndSwap(nil, name)
		}
		if req.URL.Path != "/debug/millrace/replica" {
			upstream.ServeHTTP(w, req)
			return
		}
		name, _ := group.Load().(string)
		_ = json.NewEncoder(w).Encode(serverreport.ReplicaReport{Upstream: "https://upstream", Reads: []serverreport.ResourceReads{
			{Resource: "pods", Requests: 9000}, {Resource: "registers." + name, Requests: 10, PassedOn: passedOn},
			{Resource: "leases.coordination.k8s.io", Requests: 20, PassedOn: 19, Shared: 1},
		}})
	})
}

// TestReplicaPassesAllOn: a run through a replica that answers nothing itself says so at the head
// of the report, and does not succeed.
func TestReplicaPassesAllOn(t *testing.T) {
	t.Parallel()
	report, err := verify.Run(t.Context(), config(newReplicaAPI(t, 10), time.Second))
	if report == nil || err == nil || !strings.Contains(err.Error(), "answered no read itself") || !strings.Contains(err.Error(), "proves its upstream") {
		t.Fatalf("a report: %t, error: %v", report != nil, err)
	}
	head, page := written(t, report)
	for _, want := range []string{"! http://", "0 of 10 reads of registers.", "0 of 20 reads of leases.coordination.k8s.io", "nothing about the replica"} {
		if !strings.Contains(head, want) || !strings.Contains(page, want[2:]) {
			t.Errorf("the report does not begin with %q: %s", want, head)
		}
	}
}

// TestReplicaAnswers: a replica that answers some reads itself is told apart by resource, and the
// report on another server has no such line.
func TestReplicaAnswers(t *testing.T) {
	t.Parallel()
	report, err := verify.Run(t.Context(), config(newReplicaAPI(t, 4), time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if head, _ := written(t, report); !strings.Contains(head, "6 of 10 reads of registers.") || !strings.Contains(head, "0 of 20 reads of leases") || strings.Contains(head, "nothing about") {
		t.Errorf("got %s", head)
	}
	if report, err = verify.Run(t.Context(), config(newFakeAPI(t, ""), time.Second)); err != nil {
		t.Fatal(err)
	}
	if head, page := written(t, report); !strings.HasPrefix(head, "promise") || strings.Contains(page, "replica") {
		t.Errorf("a server that is no replica: %s", head)
	}
}

// TestReplicaIsNotKnown: the report says that the user may not ask whether reads were passed on.
func TestReplicaIsNotKnown(t *testing.T) {
	t.Parallel()
	server := newRefusingAPI(t, func(req *http.Request) bool { return strings.HasPrefix(req.URL.Path, "/debug/") })
	report, err := verify.Run(t.Context(), config(server, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.Write(&text); err != nil || !strings.Contains(text.String(), "the user may not get /debug/millrace/replica") {
		t.Errorf("%v: %s", err, &text)
	}
}

// written returns the first line of a report as text, and the report as a page.
func written(t *testing.T, report *verify.Report) (head, page string) {
	t.Helper()
	var text bytes.Buffer
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	head, _, _ = strings.Cut(text.String(), "\n")
	file := filepath.Join(t.TempDir(), "report.html")
	if err := report.WritePage(file); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return head, string(html)
}
