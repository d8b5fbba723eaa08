package slo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/test/support/harness"
)

// testServer is a server process with an administrator's clients.
type testServer struct {
	*harness.Server
	t      *testing.T
	admin  *http.Client
	client kubernetes.Interface
}

func newTestServer(t *testing.T, args ...string) *testServer {
	t.Helper()
	s := harness.Start(t, harness.ShortTempDir(t), args...)
	client, err := kubernetes.NewForConfig(s.Config())
	check(t, err)
	return &testServer{Server: s, t: t, admin: s.HTTPClient(), client: client}
}

// serverReports holds the reports and the metrics of a server.
type serverReports struct {
	slo      serverreport.SLOReport
	watchers serverreport.WatchersReport
	lists    serverreport.ListsReport
	feed     serverreport.FeedReport
	// metrics holds the values by name and labels, written as in /metrics.
	metrics map[string]float64
}

func (d *testServer) read() (*serverReports, error) {
	r := &serverReports{metrics: map[string]float64{}}
	for name, into := range map[string]any{"slo": &r.slo, "watchers": &r.watchers, "lists": &r.lists, "feed": &r.feed} {
		body, err := d.get("/debug/millrace/" + name)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(body), into); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	body, err := d.get("/metrics")
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if !strings.HasPrefix(lines.Text(), "millrace_") || at < 0 {
			continue
		}
		if r.metrics[lines.Text()[:at]], err = strconv.ParseFloat(lines.Text()[at+1:], 64); err != nil {
			return nil, fmt.Errorf("read metric %s: %w", lines.Text(), err)
		}
	}
	return r, err
}

func (d *testServer) get(path string) (string, error) {
	resp, err := d.admin.Get(d.URL + path)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", path, resp.Status)
	}
	return string(body), err
}

// until waits until condition returns nil for the server's reports.
func (d *testServer) until(condition func(*serverReports) error) {
	d.t.Helper()
	err := harness.Until(waitTimeout, func() error {
		r, err := d.read()
		if err != nil {
			return err
		}
		return condition(r)
	})
	if err != nil {
		d.t.Fatalf("not so within %v: %v", waitTimeout, err)
	}
}

// expectedFault is a finding that every report must contain.
type expectedFault struct {
	cause    serverreport.Cause
	severity string
	// resource and client name the affected resource and client; "" means that the
	// finding names none. client is a prefix of the report's name, which ends with the
	// user.
	resource, client string
	// objectivesMet says whether the objectives are met despite the fault.
	objectivesMet bool
	// topWords are the words of `millrace-tools top` for the cause.
	topWords string
}

// findIn returns an error if causes do not contain the fault.
func (f *expectedFault) findIn(causes []serverreport.Finding) error {
	for _, c := range causes {
		if c.Cause == f.cause && c.Severity == f.severity && c.Resource == f.resource && strings.HasPrefix(c.Client, f.client) && (f.client == "") == (c.Client == "") {
			if c.Message == "" || c.Advice == "" {
				return fmt.Errorf("the finding lacks a message or an advice: %+v", c)
			}
			return nil
		}
	}
	return fmt.Errorf("no %s %s of %q %q in %+v", f.severity, f.cause, f.resource, f.client, causes)
}

// waitNamed waits until the reports and the metrics name the fault and all conditions
// return nil. It returns these reports.
func (d *testServer) waitNamed(f expectedFault, conditions ...func(*serverReports) error) *serverReports {
	d.t.Helper()
	var found *serverReports
	d.until(func(r *serverReports) error {
		found = r
		if err := f.findIn(r.slo.Causes); err != nil {
			return err
		}
		if r.slo.Met != f.objectivesMet || r.metrics["millrace_watch_slo_met"] != count(f.objectivesMet) {
			return fmt.Errorf("met is %v and %v in the metrics, want %v: %+v", r.slo.Met, r.metrics["millrace_watch_slo_met"], f.objectivesMet, r.slo)
		}
		if name := fmt.Sprintf("millrace_slo_cause{cause=%q}", f.cause); r.metrics[name] != 1 {
			return fmt.Errorf("%s is %v", name, r.metrics[name])
		}
		for _, condition := range conditions {
			if err := condition(r); err != nil {
				return err
			}
		}
		return nil
	})
	return found
}

// checkTop waits until the outputs of `millrace-tools top` name the fault.
func (d *testServer) checkTop(f expectedFault) {
	d.t.Helper()
	for _, args := range [][]string{{}, {"slo"}} {
		var output string
		err := harness.Until(waitTimeout, func() error {
			output = d.runTop(args...)
			for _, line := range strings.Split(output, "\n") {
				if strings.Contains(line, fmt.Sprintf(" %s (%s)", f.topWords, f.severity)) && strings.Contains(line, f.client) && strings.Contains(line, f.resource) {
					return nil
				}
			}
			return fmt.Errorf("top %v does not tell of %q of %q %q:\n%s", args, f.topWords, f.resource, f.client, output)
		})
		check(d.t, err)
	}
	var all struct {
		SLO serverreport.SLOReport `json:"slo"`
	}
	check(d.t, json.Unmarshal([]byte(d.runTop("-o", "json")), &all))
	if err := f.findIn(all.SLO.Causes); err != nil || all.SLO.Met != f.objectivesMet {
		d.t.Errorf("top -o json: met %v, %v", all.SLO.Met, err)
	}
}

// runTop runs `millrace-tools top --once` and returns what it prints.
func (d *testServer) runTop(args ...string) string {
	d.t.Helper()
	output, code := harness.Run(d.t, append([]string{"top", "--once", "--kubeconfig=" + d.Kubeconfig()}, args...)...)
	if code != 0 {
		d.t.Fatalf("top %v ends with %d:\n%s", args, code, output)
	}
	return output
}

// missed returns a condition: the objective of config maps was missed for this cause,
// and the error budget burns too fast.
func missed(cause serverreport.Cause) func(*serverReports) error {
	return func(r *serverReports) error { return r.missed("configmaps", cause) }
}

func (r *serverReports) missed(resource string, cause serverreport.Cause) error {
	for _, s := range r.slo.Resources {
		if s.Resource != resource {
			continue
		}
		if late := r.metrics[fmt.Sprintf("millrace_watch_late_events_total{resource=%q}", resource)]; s.Met || s.Cause != cause || s.Late == 0 || s.Burn.FiveMinutes <= 1 || late < float64(s.Late) {
			return fmt.Errorf("want %s missed for %s, late by the metrics %v: %+v", resource, cause, late, s)
		}
		return nil
	}
	return fmt.Errorf("%s is missing in %+v", resource, r.slo)
}

// behind returns a condition: a watch of the program agent has a backlog and is in the
// given state, "client" or "connection".
func behind(agent, state string) func(*serverReports) error {
	return func(r *serverReports) error { return r.behind(agent, state) }
}

// noneBehind checks that no watch has a backlog.
func noneBehind(r *serverReports) error {
	if r.watchers.Waiting > 0 || r.metrics["millrace_watch_behind"] != 0 {
		return fmt.Errorf("a watch is behind: %+v", r.watchers.Behind)
	}
	return nil
}

// onlyLate returns a condition: exactly the clients whose user agent begins with agent
// had late events.
func onlyLate(agent string) func(*serverReports) error {
	return func(r *serverReports) error {
		for _, c := range r.slo.Clients {
			if (c.Late > 0) != strings.HasPrefix(c.UserAgent, agent) {
				return fmt.Errorf("the wrong client is late: %+v", c)
			}
		}
		return nil
	}
}

func (r *serverReports) behind(agent, state string) error {
	if r.metrics["millrace_watch_behind"] < 1 || r.metrics["millrace_watch_behind_seconds_max"] <= 0 || r.watchers.Waiting < 1 {
		return fmt.Errorf("no watch is behind: %v, %v, %+v", r.metrics["millrace_watch_behind"], r.metrics["millrace_watch_behind_seconds_max"], r.watchers)
	}
	for _, w := range r.watchers.Behind {
		if w.UserAgent == agent && w.State == state && w.BehindEvents > 0 && w.BehindBytes > 0 && w.BehindSeconds > 0 {
			return nil
		}
	}
	return fmt.Errorf("no watch by %s waits for its %s: %+v", agent, state, r.watchers.Behind)
}

func count(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
