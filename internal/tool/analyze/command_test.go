package analyze

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/price"
)

// smallLog has one client that polls all pods, of 3 instances.
func smallLog() []byte {
	w := newLog()
	for i := range 3 {
		w.every(time.Minute, func(at time.Duration) {
			w.add(daemon("secret-agent", i), "list", "/api/v1/pods?resourceVersion=0", at, time.Second, 200)
		})
		w.add(daemon("secret-agent", i), "list", "/apis/example.org/v1/namespaces/hidden/widgets?labelSelector=code%3Dx", time.Minute, time.Second, 200)
	}
	return w.bytes()
}

func TestCosts(t *testing.T) {
	r := runAnalysis(t, smallLog())
	pods := r.Shapes[0]
	if pods.Fleet != 3 || pods.Requests != 180 || pods.Objects != 180*6000 || pods.Bytes != 180*6000*8000 || pods.Source != fromCache {
		t.Errorf("got %+v", pods)
	}
	if want := 180 * 6000 * 8000 * 8.62e-9; math.Abs(pods.CPU-want) > 0.01*want {
		t.Errorf("CPU is %.1f s, want %.1f", pods.CPU, want)
	}
	if f := r.Findings[0]; f.Kind != kindPolling || f.SavedCPU < 0.9*pods.CPU {
		t.Errorf("got %+v", f)
	}
}

func TestFailOn(t *testing.T) {
	logFile, profileFile := inputs(t, smallLog())
	for text, fails := range map[string]bool{"list-cpu>0.001": true, "list-cpu > 1000": false, "findings>0": true, "requests>1000": false} {
		_, _, err := execute(t, logFile, "--profile="+profileFile, "--fail-on="+text)
		var condition *ConditionError
		if got := errors.As(err, &condition); got != fails || fails && condition.ExitCode() != 2 {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if _, _, err := execute(t, logFile, "--fail-on=nonsense>1"); err == nil || !strings.Contains(err.Error(), "list-cpu") {
		t.Errorf("got %v, want the names of figures", err)
	}
}

func TestHashedNames(t *testing.T) {
	logFile, profileFile := inputs(t, smallLog())
	page := filepath.Join(t.TempDir(), "report.html")
	run := func(salt string) string {
		out, _, err := execute(t, logFile, "--profile="+profileFile, "-o", "json", "--hash-names", "--salt="+salt, "--report="+page)
		if err != nil {
			t.Fatal(err)
		}
		html, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"secret-agent", "agents", "hidden", "widgets", "example.org", "code"} {
			if strings.Contains(out, name) || strings.Contains(string(html[bytes.Index(html, []byte("<h1>")):]), name+" ") {
				t.Errorf("%s is in the report", name)
			}
		}
		return out[strings.Index(out, `"findings"`):]
	}
	if a, b := run("x"), run("x"); a != b {
		t.Error("the same salt gives other hashes")
	}
	if run("x") == run("y") {
		t.Error("another salt gives the same hashes")
	}
}

// TestHashedNamesOfPrograms has programs whose names say what runs in the cluster. Their
// encoding is still known.
func TestHashedNamesOfPrograms(t *testing.T) {
	w := newLog()
	for i, program := range []string{"cilium-agent", "kubelet", "curl"} {
		w.every(time.Minute, func(at time.Duration) {
			who := agent{"system:serviceaccount:kube-system:" + program, program + "/v1", fmt.Sprintf("10.0.0.%d", i), ""}
			w.add(who, "list", "/api/v1/pods?resourceVersion=0", at, time.Second, 200)
		})
	}
	plain, hashed := runAnalysis(t, w.bytes()), runAnalysis(t, w.bytes(), "--hash-names")
	if plain.Total.CPU != hashed.Total.CPU {
		t.Errorf("with hashes the CPU is %v, without %v", hashed.Total.CPU, plain.Total.CPU)
	}
	for i := range hashed.Clients {
		c := &hashed.Clients[i]
		if !strings.HasPrefix(c.User, "user-") || strings.Contains(c.UserAgent, "cilium") {
			t.Errorf("got %s of %s", c.UserAgent, c.User)
		}
	}
	if !slices.ContainsFunc(hashed.Clients, func(c ClientCost) bool { return c.UserAgent == "kubelet" }) {
		t.Error("the kubelet is hashed")
	}
}

// TestHashedNamesOutsideOfRequests has names in paths of discovery, in names of files, and in the
// sources of the price list.
func TestHashedNamesOutsideOfRequests(t *testing.T) {
	w := newLog()
	kept := []string{"/apis/apps", "/apis/rbac.authorization.k8s.io", "/healthz/etcd", "/openapi/v3", "/version", "/api/v1"}
	hidden := []string{"/apis/mycompany.io", "/apis/mycompany.io/v1", "//apis/mycompany.io", "/apis//mycompany.io", "/mycompany", "/mycompany/x", "/logs/mycompany.log", "mycompany"}
	for i, uri := range slices.Concat(kept, hidden) {
		w.add(daemon("a", 1), "get", uri+"?timeout=32s", time.Duration(i)*time.Minute, time.Millisecond, 200)
	}
	w.add(daemon("a", 1), "patch", "/apis/example.org/v1/namespaces/a/widgets/w/status", time.Minute, time.Millisecond, 200)
	logFile, profileFile := inputs(t, w.bytes())
	list, err := price.Default()
	if err != nil {
		t.Fatal(err)
	}
	list.Sources = []string{"/home/mycompany/list.json"}
	encoded, err := json.Marshal(list)
	prices := filepath.Join(t.TempDir(), "mycompany-prices.json")
	profile := filepath.Join(t.TempDir(), "mycompany-cluster.json")
	if err = errors.Join(err, os.WriteFile(prices, encoded, 0o600), os.Rename(profileFile, profile)); err != nil {
		t.Fatal(err)
	}
	out, _, err := execute(t, logFile, "--profile="+profile, "--prices="+prices, "-o", "json", "--hash-names")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mycompany", profile, prices, "widgets"} {
		if i := strings.Index(out, name); i >= 0 {
			t.Errorf("%s is in the report: %s", name, out[max(0, i-60):i+len(name)])
		}
	}
	for _, path := range kept {
		if !strings.Contains(out, `"`+path+`"`) {
			t.Errorf("%s of Kubernetes is hashed", path)
		}
	}
	if !strings.Contains(out, `.hashed/status"`) {
		t.Error("a subresource of a custom resource is no longer one")
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(t, "--from="+file, "--hash-names"); err == nil || !strings.Contains(err.Error(), "--from") {
		t.Errorf("--hash-names with --from: got %v", err)
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	whole := string(smallLog())
	cut := write("cut.log", whole[:len(whole)-40])
	out, _, err := execute(t, cut)
	if lost := (*auditlog.LostError)(nil); !errors.As(err, &lost) || lost.ExitCode() != 3 || strings.Count(out, "lost: 1 record of") != 1 {
		t.Errorf("cut off: %v in\n%s", err, out)
	}
	for name, want := range map[string]string{
		"hello\nworld\n": `2 records of 10B: text (the first is line 1). It begins with "hello".`,
		"":               "it is empty",
		strings.ReplaceAll(whole, "ResponseComplete", "RequestReceived"): "183 events of other stages",
		strings.NewReplacer("Timestamp", "X").Replace(whole):             "183 records of",
	} {
		if out, _, err := execute(t, write("useless.log", name)); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%.40s: got %v, want %s", name, err, want)
		}
	}
	for _, args := range [][]string{{write("other.log", "hello\nworld\n")}, {write("empty.log", "")}, {filepath.Join(dir, "none")}, {}, {cut, "--profile=" + cut}, {cut, "--prices=" + cut}, {cut, "--server-version=2"}, {cut, "--report=" + dir + "/none/r.html"}, {"--from=" + cut}, {cut, "--from=" + cut}, {cut, "--accounts=" + cut}, {"--from=" + cut, "--accounts=" + cut}} {
		if out, _, err := execute(t, args...); err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 || out != "" {
			t.Errorf("%v: %v and %q, want one clear line", args, err, out)
		}
	}
}

// TestSameReport makes a report of the same events again and again, in other orders of files
// and in a list. The reports differ in the names and counts of inputs alone.
func TestSameReport(t *testing.T) {
	w := newLog()
	for i := range 40 {
		who := daemon(fmt.Sprintf("agent-%d", i%9), i)
		w.informer(who, "/api/v1/pods", "", time.Duration(i)*time.Minute/2)
		w.every(time.Minute, func(at time.Duration) {
			w.add(who, "list", fmt.Sprintf("/api/v1/namespaces/n%d/configmaps", i), at, 13*time.Millisecond, 200)
			w.add(who, "get", fmt.Sprintf("/api/v1/namespaces/n%d/pods/p%d", i, int(at.Minutes())), at, 7*time.Millisecond, 200)
		})
	}
	text := w.bytes()
	half := bytes.LastIndexByte(text[:len(text)/2], '\n') + 1
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	if err := errors.Join(os.WriteFile(a, text[:half], 0o600), os.WriteFile(b, text[half:], 0o600)); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "list.json")
	wrapped := `{"kind":"EventList","items":[` + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ",") + `]}`
	if err := os.WriteFile(list, []byte(wrapped), 0o600); err != nil {
		t.Fatal(err)
	}
	reports := map[string]int{}
	for i := range 10 {
		out, _, err := execute(t, append([][]string{{a, b}, {b, a}, {list}}[i%3], "-o", "json")...)
		if err != nil {
			t.Fatal(err)
		}
		r := map[string]any{}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		delete(r, "run")
		delete(r, "notes")
		reports[fmt.Sprint(r)]++
	}
	if len(reports) != 1 {
		t.Errorf("ten reports of one log are %d different ones: %d", len(reports), slices.Collect(maps.Values(reports)))
	}
}

func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	defer full.Close()
	logFile, _ := inputs(t, smallLog())
	cmd := NewCommand("test")
	cmd.SetOut(full)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs([]string{logFile})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
}

func TestReportIsPrintedAgain(t *testing.T) {
	logFile, profileFile := inputs(t, smallLog())
	first, _, err := execute(t, logFile, "--profile="+profileFile)
	if err != nil {
		t.Fatal(err)
	}
	encoded, _, err := execute(t, logFile, "--profile="+profileFile, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, []byte(encoded), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, _, err := execute(t, "--from="+file); err != nil || again != first {
		t.Errorf("%v, got\n%s\nwant\n%s", err, again, first)
	}
}

func TestPage(t *testing.T) {
	w := newLog()
	evil := agent{"<script>alert(1)</script>", "\x1b[31mevil</title>", "10.0.0.1", ""}
	w.every(time.Minute, func(at time.Duration) { w.add(evil, "list", "/api/v1/pods?resourceVersion=0", at, time.Second, 200) })
	logFile, profileFile := inputs(t, w.bytes())
	file := filepath.Join(t.TempDir(), "report.html")
	out, _, err := execute(t, logFile, "--profile="+profileFile, "--report="+file)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "http://", "https://", "src=", "@import", "url("} {
		if bytes.Contains(page, []byte(bad)) {
			t.Errorf("the page has %s", bad)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a name sends control characters to the terminal")
	}
}

func TestAgentStarts(t *testing.T) {
	w := newLog()
	for i := range 30 {
		at := time.Duration(i) * time.Minute
		w.informer(daemon("starter", i), "/api/v1/pods", "", at)
		w.informer(daemon("starter", i), "/api/v1/nodes", "", at)
	}
	logFile, profileFile := inputs(t, w.bytes())
	out, _, err := execute(t, "agent", "starter", logFile, "--profile="+profileFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mean of 30 starts", "× 30 instances", "GET /api/v1/pods?limit=500&resourceVersion=0 1.0 cache", "At most 3 per minute, a tenth of the fleet", "random wait of up to 10m00s"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if _, _, err := execute(t, "agent", "nobody", logFile); err == nil {
		t.Error("an agent that is not there is no error")
	}
}

func TestFlowSchemasAreValid(t *testing.T) {
	f := &Finding{Resource: "deployments.apps"}
	for _, user := range []string{"system:serviceaccount:agents:ds-poller", `O"Brien: {x}@example.org`} {
		f.User = user
		documents := strings.Split(flowSchema(f), "---\n")
		var level flowcontrolv1.PriorityLevelConfiguration
		var schema flowcontrolv1.FlowSchema
		if err := errors.Join(yaml.UnmarshalStrict([]byte(documents[0]), &level), yaml.UnmarshalStrict([]byte(documents[1]), &schema)); err != nil {
			t.Fatal(err)
		}
		subject := schema.Spec.Rules[0].Subjects[0]
		if schema.Spec.PriorityLevelConfiguration.Name != level.Name || subject.User != nil && subject.User.Name != user || subject.ServiceAccount != nil && subject.ServiceAccount.Name != "ds-poller" {
			t.Errorf("got %+v", schema.Spec)
		}
	}
	for _, user := range []string{"", "system:kube-scheduler", auditlog.NodeUser} {
		if f.User = user; flowSchema(f) != "" {
			t.Errorf("%q is held back", user)
		}
	}
}

func TestManyClientsTakeBoundedMemory(t *testing.T) {
	c := newCollector()
	heavy := &auditlog.Event{Stage: []byte("ResponseComplete"), Verb: []byte("list"), URI: []byte("/api/v1/pods"), User: []byte("heavy"), Received: 1, StageReached: 1e6, Code: 200}
	for i := range 100_000 {
		name := fmt.Appendf(nil, "user-%d", i)
		c.observe(&auditlog.Event{Stage: heavy.Stage, Verb: []byte("get"), URI: fmt.Appendf(nil, "/api/v1/namespaces/n%d/pods/p%d", i, i), User: name, UserAgent: name, Address: name, Received: 1, StageReached: 1000, Code: 200})
		if i%100 == 0 {
			c.observe(heavy)
		}
	}
	if len(c.cells.rows) > maxCells || len(c.clients.rows) > maxClients || c.shaper.Words() > auditlog.MaxWords {
		t.Errorf("%d cells, %d clients, %d words", len(c.cells.rows), len(c.clients.rows), c.shaper.Words())
	}
	sum := c.dropped.requests
	for key, v := range c.cells.rows {
		sum += v.requests
		if key.client.User == "heavy" && v.requests != 1000 {
			t.Errorf("the heavy client has %d requests", v.requests)
		}
	}
	if sum != 101_000 {
		t.Errorf("%d requests in all", sum)
	}
}
