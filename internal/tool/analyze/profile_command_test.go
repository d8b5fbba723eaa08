package analyze

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// kubeconfigOf returns a kubeconfig of a server with nodes, pods and widgets, which are all
// forbidden but those of some resources.
func kubeconfigOf(t *testing.T, allowed ...string) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		})
	}
	answer("/version", `{"gitVersion":"v1.37.2"}`)
	answer("/api", `{"kind":"APIVersions","versions":["v1"]}`)
	answer("/apis", `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.org","versions":[{"groupVersion":"example.org/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.org/v1","version":"v1"}}]}`)
	answer("/api/v1", `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","verbs":["list"]},{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list"]}]}`)
	answer("/apis/example.org/v1", `{"kind":"APIResourceList","groupVersion":"example.org/v1","resources":[{"name":"widgets","kind":"Widget","verbs":["list"]}]}`)
	for _, resource := range allowed {
		answer("/api/v1/"+resource, `{"kind":"List","metadata":{},"items":[{"metadata":{"name":"a"}}]}`)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestProfileTellsWhatItLacks(t *testing.T) {
	out, stderr, err := execute(t, "profile", "--kubeconfig="+kubeconfigOf(t, "nodes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not measured: pods: refused: 403 Forbidden\n", "not measured: widgets.example.org: refused: 403 Forbidden\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in\n%s", want, stderr)
		}
	}
	dir := t.TempDir()
	profileFile, page := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "report.html")
	logFile, _ := inputs(t, smallLog())
	if err := os.WriteFile(profileFile, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	text, _, err := execute(t, logFile, "--profile="+profileFile, "--report="+page)
	html, readErr := os.ReadFile(page)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	for name, shown := range map[string]string{"text": text, "page": string(html)} {
		for _, want := range []string{"The profile lacks 2 resources", "pods: refused: 403 Forbidden.", "widgets.example.org: refused"} {
			if !strings.Contains(strings.Join(strings.Fields(shown), " "), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, shown)
			}
		}
	}
	hashed, _, err := execute(t, logFile, "--profile="+profileFile, "--hash-names")
	if err != nil || strings.Contains(hashed, "widgets") || !strings.Contains(hashed, "lacks 2 resources") {
		t.Errorf("%v in\n%s", err, hashed)
	}
}

func TestProfileOfNothingIsAnError(t *testing.T) {
	out, stderr, err := execute(t, "profile", "--kubeconfig="+kubeconfigOf(t))
	if err == nil || !strings.Contains(err.Error(), "right to list") || !strings.Contains(stderr, "not measured: nodes: refused: 403") || out != "" {
		t.Errorf("%v, out %q, stderr %q", err, out, stderr)
	}
}

// The cluster to measure need not be one of Millrace.
func TestProfileWithoutKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	home := clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = filepath.Join(t.TempDir(), "none")
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = home })
	_, _, err := execute(t, "profile")
	if err == nil || !strings.Contains(err.Error(), "--kubeconfig") || !strings.Contains(err.Error(), "KUBECONFIG") || strings.Contains(err.Error(), "millrace") {
		t.Errorf("got %v", err)
	}
}

func TestNotesOfAProfileAreBounded(t *testing.T) {
	p := testProfile()
	for i := range 500 {
		p.Notes = append(p.Notes, fmt.Sprintf("widgets%d: \x1b[31mrefused", i))
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	logFile, profileFile := inputs(t, smallLog())
	if err := os.WriteFile(profileFile, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := execute(t, logFile, "--profile="+profileFile)
	if err != nil || !strings.Contains(out, "lacks 500 resources") || strings.Count(out, "refused") != maxProfileNotes || strings.Contains(out, "\x1b") {
		t.Errorf("%v in\n%s", err, out)
	}
	var none clusterprofile.Profile
	r := &Report{}
	if r.noteProfile(&none, false); len(r.Notes) > 0 {
		t.Errorf("a whole profile has notes %q", r.Notes)
	}
}
