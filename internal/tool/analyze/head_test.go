package analyze

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// shown returns what the terminal and the page show of a log.
func shown(t *testing.T, log []byte, args ...string) map[string]string {
	t.Helper()
	logFile, profileFile := inputs(t, log)
	page := filepath.Join(t.TempDir(), "report.html")
	out, _, err := execute(t, append([]string{logFile, "--profile=" + profileFile, "--report=" + page}, args...)...)
	html, readErr := os.ReadFile(page)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"text": out, "page": string(html)}
}

// serverLog is smallLog with requests of kube-apiserver to itself.
func serverLog(versions ...string) []byte {
	w := newLog()
	for i, version := range versions {
		server := agent{"system:apiserver", "kube-apiserver/" + version + " (linux/amd64) kubernetes/abc", "::1", ""}
		w.add(server, "list", "/api/v1/services?resourceVersion=0", time.Duration(i)*time.Second, time.Millisecond, 200)
		w.add(daemon("kube-apiserver", 1), "list", "/api/v1/services?resourceVersion=0", time.Second, time.Millisecond, 200) // another user
	}
	w.every(time.Minute, func(at time.Duration) {
		w.add(daemon("unset", 1), "list", "/api/v1/pods", at, time.Second, 200)
	})
	return w.bytes()
}

func TestVersionOfTheServer(t *testing.T) {
	for _, c := range []struct {
		versions []string
		args     []string
		want     string
		minor    string
		source   string
	}{
		{[]string{"v1.29.5-eks-abc"}, nil, "Costs are for Kubernetes 1.29, as kube-apiserver calls itself in the log.", "1.29", fromEtcd},
		{[]string{"v1.29.5", "v1.32.1", "v1.32.1"}, nil, "Kubernetes 1.32, as", "1.32", fromCache},
		{[]string{"v1.32.1", "v1.29.5"}, nil, "Kubernetes 1.32, as", "1.32", fromCache},
		{[]string{"v1.29.5"}, []string{"--server-version=1.35"}, "Kubernetes 1.35 (--server-version).", "1.35", fromCache},
		{nil, nil, "Kubernetes 1.37: the log does not name the server's version. If it is another version, give --server-version.", "1.37", fromCache},
		{[]string{"nonsense", "v2.1", "v1.x", "v1.99999"}, nil, "Kubernetes 1.37: the log does not name", "1.37", fromCache},
	} {
		log := serverLog(c.versions...)
		for name, text := range shown(t, log, c.args...) {
			if text = strings.ReplaceAll(text, "&#39;", "'"); !strings.Contains(text, c.want) || strings.Index(text, c.want) > strings.Index(text, "1. ") && name == "text" {
				t.Errorf("%q %q: %q is not at the head of the %s:\n%s", c.versions, c.args, c.want, name, text)
			}
		}
		r := runAnalysis(t, log, c.args...)
		for _, s := range r.Shapes {
			if s.UserAgent == "unset" && (s.Source != c.source || r.Run.Options.ServerVersion != c.minor) {
				t.Errorf("%q %q: read from %s as %s", c.versions, c.args, s.Source, r.Run.Options.ServerVersion)
			}
		}
	}
}

// A log that is too short for findings, or has losses, says so before anything else.
func TestHeadSaysWhatTheLogLacks(t *testing.T) {
	w := newLog()
	for i := range 8 {
		at := time.Duration(i) * 10 * time.Second
		w.add(daemon("looper", 1), "list", "/api/v1/pods?resourceVersion=0", at, time.Second, 200)
		w.add(daemon("looper", 1), "watch", "/api/v1/pods?allowWatchBookmarks=true&resourceVersion=5&watch=true", at, 5*time.Second, 200)
	}
	for name, text := range shown(t, w.bytes()) {
		for _, want := range []string{"The log is of 1m15s only", "polling 5 LISTs of an instance", "8 times in 1m15s in each instance"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in the %s:\n%s", want, name, text)
			}
		}
		if strings.Contains(text, "times an hour") {
			t.Errorf("the %s has an hour that the log has not:\n%s", name, text)
		}
	}
	for name, text := range shown(t, smallLog()) {
		if strings.Contains(text, "only, and findings need") || strings.Contains(text, "A part of the log is lost") {
			t.Errorf("a whole log of an hour is blamed in the %s:\n%s", name, text)
		}
	}
	page := filepath.Join(t.TempDir(), "report.html")
	out, _, _ := execute(t, writeCut(t, 3, 1), "--report="+page)
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"text": out, "page": string(html)} {
		if i := strings.Index(text, "A part of the log is lost, and not in the figures: 1 record could not be read"); i < 0 || i > strings.Index(text, "No client could do better") {
			t.Errorf("the loss is not at the head of the %s:\n%s", name, text)
		}
	}
}

func TestRepairFirst(t *testing.T) {
	const want = "Repair first: secret-agent (system:serviceaccount:agents:secret-agent): watch all pods instead of asking again and again (finding 1, 98% of the CPU of all reads)."
	for name, text := range shown(t, smallLog()) {
		if i := strings.Index(text, want); i < 0 || i > strings.Index(text, "polls all pods") {
			t.Errorf("no repair at the head of the %s:\n%s", name, text)
		}
		if name == "text" && !strings.HasSuffix(text, want+"\n") {
			t.Errorf("the last line is not the repair:\n%s", text)
		}
	}
	w := newLog()
	w.addInnocents()
	w.addOffenders()
	for name, text := range shown(t, w.bytes()) {
		if strings.Contains(text, "0.000") || !strings.Contains(text, " millicores, ") {
			t.Errorf("the %s has savings that read as nothing:\n%s", name, text)
		}
	}
	for i, f := range runAnalysis(t, w.bytes()).Findings {
		if f.Repair == "" || strings.Contains(f.Repair, "%!") {
			t.Errorf("finding %d, %s, has the repair %q", i+1, f.Kind, f.Repair)
		}
	}
}

// Two findings on the same requests say so.
func TestFindingsOnTheSameRequests(t *testing.T) {
	w := newLog()
	w.every(30*time.Second, func(at time.Duration) {
		w.add(daemon("poller", 1), "list", "/api/v1/pods?limit=500&resourceVersion=0", at, time.Second, 200)
		w.add(daemon("other", 1), "list", "/api/v1/pods?resourceVersion=0", at, time.Second, 200)
	})
	for name, text := range shown(t, w.bytes()) {
		if n := strings.Count(text, "is on the same client and resource: their savings do not add up"); n != 1 {
			t.Errorf("%d findings of the %s name another one:\n%s", n, name, text)
		}
	}
}

func TestTextFitsTheTerminal(t *testing.T) {
	w := newLog()
	w.addInnocents()
	w.addOffenders()
	r := runAnalysis(t, w.bytes())
	for _, width := range []int{80, 100} {
		for _, text := range []string{r.text("table", 15, width), r.agentText("table", width)} {
			for _, line := range strings.Split(text, "\n") {
				longWord := strings.Contains(line, "?") || strings.Contains(line, "/api")
				if utf8.RuneCountInString(line) > width && !longWord {
					t.Errorf("%d: a line has %d characters: %s", width, utf8.RuneCountInString(line), line)
				}
			}
		}
	}
	for _, want := range []string{"BYTES LOOKED AT", "ds-poller (agents:ds-poller)"} {
		if text := r.text("table", 15, 80); !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
