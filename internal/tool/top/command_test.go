package top

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/account/dashboard"
	"github.com/millrace/millrace/internal/account/dashboard/fake"
	"github.com/millrace/millrace/internal/account/serverreport"
)

// serve starts a server with the handler h. It returns the path of a kubeconfig for
// the server, and the server's URL.
func serve(t *testing.T, h http.Handler) (kubeconfig, host string) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"secret"}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, server.URL
}

func run(kubeconfig string, args ...string) (string, error) {
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--kubeconfig="+kubeconfig))
	err := cmd.Execute()
	return out.String(), err
}

func TestViews(t *testing.T) {
	kubeconfig, _ := serve(t, dashboard.Handler(fake.New().Source()))
	for _, c := range []struct {
		args  string
		words []string
	}{
		{"", []string{"What is wrong now\n✗ clients do not read (critical)  pods  slow-exporter", "→ Give the client more CPU", "Watches   20412", "widgets.example.com", "Furthest behind", "LIST pods"}},
		{"slo", []string{"By resource", "endpointslices.discovery.k8s.io", "✗ missed", "connection", "spec.nodeName=node-00417"}},
		{"watchers", []string{"41s", "system:node:node-00000", "LOG AGE", "Passed on: 15 more watches", "volumesnapshots.snapshot.storage.k8s.io"}},
		{"lists", []string{"Storm: 3104 of 5000 cilium-agent list pods", "from stored bytes, 63291 both ways", "at .metadata.annotations", "scan", "kubectl: Watch instead of listing"}},
		{"memory", []string{"v1 protobuf 141MB", "field spec.nodeName, label app"}},
		{"crds", []string{"2014 definitions", "compositions.apiextensions.crossplane.io", "webhook"}},
		{"replica", []string{"https://api.example.com:6443 v1.37.1, through api", "by an estimate at least 1d", "✗ broken for 12s", "✓ follows", "not-read", "impersonation", "refused here", "certificate"}},
		{"feed", []string{"! late 7.2s", "✓ in time", "https://10.0.0.9:2379", "Probe     ok  write to event p50"}},
		{"watchers -o wide", []string{"PROTOCOL", "node-00814"}},
	} {
		out, err := run(kubeconfig, strings.Fields(c.args)...)
		if err != nil {
			t.Errorf("top %s: %v", c.args, err)
		}
		for _, word := range c.words {
			if !strings.Contains(out, word) {
				t.Errorf("top %s lacks %q:\n%s", c.args, word, out)
			}
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(out) {
			t.Errorf("top %s prints an unprintable character at byte %d", c.args, i)
		}
	}
	if out, _ := run(kubeconfig, "watchers"); !strings.Contains(out, `evil\x1b[2J`) || strings.Contains(out, "PROTOCOL") {
		t.Errorf("names are not escaped, or all columns are there:\n%s", out)
	}
}

// TestReadsAreWrong: a replica whose watch events are in time has something wrong if reads fail, if
// nearly all are passed on, or if a resource that was named is refused.
func TestReadsAreWrong(t *testing.T) {
	reads := func(passedOn, failed uint64) serverreport.ResourceReads {
		return serverreport.ResourceReads{Resource: "pods", Requests: 1000, PassedOn: passedOn, Failed: failed}
	}
	refused := serverreport.FollowedResource{Name: "secrets", Named: true, Refused: "refused", Error: "the upstream refuses to list or watch it"}
	read := refused
	read.Named = false
	const well = "Nothing is wrong"
	for _, c := range []struct {
		name     string
		reads    serverreport.ResourceReads
		followed serverreport.FollowedResource
		want     string
	}{
		{"usual", reads(500, 4), serverreport.FollowedResource{Name: "pods"}, well},
		{"passed on", reads(990, 0), serverreport.FollowedResource{Name: "pods"}, "The upstream answered 990 of 1000"},
		{"few reads", serverreport.ResourceReads{Requests: 20, PassedOn: 20}, serverreport.FollowedResource{Name: "pods"}, well},
		{"failed", reads(0, 20), serverreport.FollowedResource{Name: "pods"}, "20 of these are of pods"},
		{"named and refused", reads(0, 0), refused, "secrets\n  The resource is named in --follow"},
		{"refused", reads(0, 0), read, well},
	} {
		source := dashboard.Source{
			SLO: func() serverreport.SLOReport { return serverreport.SLOReport{Met: true} },
			Replica: func() serverreport.ReplicaReport {
				r := serverreport.ReplicaReport{Reads: []serverreport.ResourceReads{c.reads}, Followed: []serverreport.FollowedResource{c.followed}}
				r.FindCauses()
				return r
			},
		}
		kubeconfig, _ := serve(t, dashboard.Handler(source))
		for _, view := range []string{"", "slo"} {
			out, err := run(kubeconfig, strings.Fields(view)...)
			if err != nil || !strings.Contains(out, c.want) || c.want != well && strings.Contains(out, well) {
				t.Errorf("%s, view %q, lacks %q: %v\n%s", c.name, view, c.want, err, out)
			}
		}
		out, err := run(kubeconfig, "replica")
		if want := "! not followed: refused"; err != nil || strings.Contains(out, want) != (c.followed.Refused != "") || c.followed.Refused != "" && !strings.Contains(out, "→ secrets: the upstream refuses") {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}

func TestJSON(t *testing.T) {
	kubeconfig, _ := serve(t, dashboard.Handler(fake.New().Source()))
	out, err := run(kubeconfig, "watchers", "-o", "json")
	var result serverreport.WatchersReport
	if err != nil || json.Unmarshal([]byte(out), &result) != nil || result.Watches != 20412 {
		t.Errorf("%v: %.300s", err, out)
	}
	out, err = run(kubeconfig, "-o", "json")
	var all map[string]json.RawMessage
	if err != nil || json.Unmarshal([]byte(out), &all) != nil || len(all) != 6 || all["slo"] == nil {
		t.Errorf("%v: %.300s", err, out)
	}
}

func TestErrors(t *testing.T) {
	status := func(code int, message string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("asked without the kubeconfig's credentials")
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","message":%q}`, message)
		})
	}
	for _, c := range []struct {
		name string
		h    http.Handler
		want []string
	}{
		{"401", status(401, "Unauthorized"), []string{"does not accept the kubeconfig's credentials"}},
		{"403", status(403, `forbidden: User "bob\u001b[2J" cannot get path`), []string{`User "bob`, `nonResourceURLs: ["/debug/millrace/*"]`, "kubectl create clusterrole millrace-viewer --verb=get"}},
		{"404", status(404, "not found"), []string{"--read-path=kubernetes"}},
		{"503", status(503, "shutting down"), []string{"503"}},
		{"no JSON", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }), []string{"read slo"}},
	} {
		kubeconfig, _ := serve(t, c.h)
		_, err := run(kubeconfig)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%s: %v, want %q", c.name, err, want)
			}
		}
	}
	if _, err := run("/nowhere/kubeconfig"); err == nil || !strings.Contains(err.Error(), "/nowhere/kubeconfig") {
		t.Errorf("no kubeconfig: %v", err)
	}
	for _, args := range [][]string{{"nothing"}, {"-o", "yaml"}, {"--interval=1ms"}, {"slo", "lists"}} {
		if _, err := run("/nowhere/kubeconfig", args...); err == nil || strings.Contains(err.Error(), "/nowhere") {
			t.Errorf("top %v: %v", args, err)
		}
	}
}

// TestPartial uses servers that serve one report only, or one only to this user.
func TestPartial(t *testing.T) {
	source := fake.New().Source()
	kubeconfig, _ := serve(t, dashboard.Handler(dashboard.Source{Memory: source.Memory}))
	if out, err := run(kubeconfig); err != nil || !strings.Contains(out, "wire cache 251MB of 336MB") || strings.Contains(out, "Watches") {
		t.Errorf("%v:\n%s", err, out)
	}
	all := dashboard.Handler(source)
	kubeconfig, _ = serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasSuffix(req.URL.Path, "/slo") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		all.ServeHTTP(w, req)
	}))
	if out, err := run(kubeconfig, "slo"); err != nil || !strings.Contains(out, "Slowest clients") {
		t.Errorf("a user who may read one report alone: %v:\n%s", err, out)
	}
	kubeconfig, _ = serve(t, dashboard.Handler(dashboard.Source{Memory: source.Memory}))
	if _, err := run(kubeconfig, "slo"); err == nil || !strings.Contains(err.Error(), "does not have the report slo") {
		t.Errorf("a report that is not there: %v", err)
	}
}

// TestFrames draws every view on terminals of several sizes. No frame may be wider or
// higher than its terminal.
func TestFrames(t *testing.T) {
	_, host := serve(t, dashboard.Handler(fake.New().Source()))
	c, err := newClient(&rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views() {
		r, err := c.fetch(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{20, 40, 80, 132, 200} {
			for _, wide := range []bool{false, true} {
				s := &screen{client: c, view: v, wide: wide, reports: r, fetchErr: errAbsent}
				frame := s.frame(width, 24)
				body := strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\x1b[J", "").Replace(frame)
				lines := strings.Split(body, "\r\n")
				if len(lines) > 24 {
					t.Errorf("%s has %d lines on a terminal of 24", v.name, len(lines))
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(line); n > width {
						t.Errorf("%s on %d columns has a line of %d: %s", v.name, width, n, line)
					}
					if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
						t.Errorf("view %s has an unprintable character: %q", v.name, line)
					}
				}
			}
		}
	}
}

func TestKeys(t *testing.T) {
	s := &screen{view: views()[0]}
	for _, step := range []struct {
		key  byte
		view string
	}{{'2', "slo"}, {'\t', "watchers"}, {'7', "feed"}, {'\t', "replica"}, {'\t', "overview"}, {'8', "replica"}, {'\t', "overview"}, {'9', "overview"}, {'x', "overview"}, {'4', "lists"}} {
		if !s.handleKey(step.key) || s.view.name != step.view {
			t.Errorf("%q leads to %s, want %s", step.key, s.view.name, step.view)
		}
	}
	if s.handleKey('w'); !s.wide {
		t.Error("key w does not show the wide columns")
	}
	for _, key := range []byte{'q', ctrlC, ctrlD} {
		if s.handleKey(key) {
			t.Errorf("key %q does not end the program", key)
		}
	}
}

func TestRates(t *testing.T) {
	s := &screen{view: views()[0]}
	take := func(second int64, events uint64) string {
		r := &reports{SLO: &serverreport.SLOReport{Time: time.Unix(second, 0), All: serverreport.ResourceSLO{Events: events, Bytes: events * 1000}}}
		s.setReports(fetchResult{reports: r})
		return strings.TrimSpace(s.reports.rates())
	}
	for _, step := range []struct {
		second int64
		events uint64
		want   string
	}{{100, 5000, ""}, {102, 5300, "150/s  150kB/s"}, {104, 5300, "0/s  0B/s"}, {106, 10, ""}, {107, 20, "10/s  10kB/s"}} {
		if got := take(step.second, step.events); got != step.want {
			t.Errorf("after %d s: %q, want %q", step.second, got, step.want)
		}
	}
}
