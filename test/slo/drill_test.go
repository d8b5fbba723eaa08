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

	"github.com/millrace/millrace/internal/report"
	"github.com/millrace/millrace/test/harness"
)

// drill is a server with what looks at it.
type drill struct {
	*harness.Server
	t      *testing.T
	admin  *http.Client
	client kubernetes.Interface
}

func newDrill(t *testing.T, args ...string) *drill {
	t.Helper()
	s := harness.Start(t, harness.ShortTempDir(t), args...)
	client, err := kubernetes.NewForConfig(s.Config())
	check(t, err)
	return &drill{Server: s, t: t, admin: s.HTTPClient(), client: client}
}

// readings are what the server says of itself.
type readings struct {
	slo      report.SLOReport
	watchers report.WatchersReport
	lists    report.ListsReport
	feed     report.FeedReport
	// metrics are by their name with labels, as they stand in /metrics.
	metrics map[string]float64
}

func (d *drill) read() (*readings, error) {
	r := &readings{metrics: map[string]float64{}}
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

func (d *drill) get(path string) (string, error) {
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

// until waits for what the reports are to say.
func (d *drill) until(condition func(*readings) error) {
	d.t.Helper()
	err := harness.Until(patience, func() error {
		r, err := d.read()
		if err != nil {
			return err
		}
		return condition(r)
	})
	if err != nil {
		d.t.Fatalf("not so within %v: %v", patience, err)
	}
}

// fault is what every report is to say.
type fault struct {
	cause    report.Cause
	severity string
	// resource and client are whom it concerns, "" for all. client is the beginning of
	// the name, which a user follows.
	resource, client string
	// met says whether the objectives are met all the same.
	met bool
	// words are how `millrace top` tells it.
	words string
}

// in looks for the fault among causes.
func (f *fault) in(causes []report.Finding) error {
	for _, c := range causes {
		if c.Cause == f.cause && c.Severity == f.severity && c.Resource == f.resource && strings.HasPrefix(c.Client, f.client) && (f.client == "") == (c.Client == "") {
			if c.Message == "" || c.Advice == "" {
				return fmt.Errorf("the finding says nothing: %+v", c)
			}
			return nil
		}
	}
	return fmt.Errorf("no %s %s of %q %q in %+v", f.severity, f.cause, f.resource, f.client, causes)
}

// named waits until the reports and the metrics name the fault and meet what else is
// given, and returns the reports.
func (d *drill) named(f fault, conditions ...func(*readings) error) *readings {
	d.t.Helper()
	var found *readings
	d.until(func(r *readings) error {
		found = r
		if err := f.in(r.slo.Causes); err != nil {
			return err
		}
		if r.slo.Met != f.met || r.metrics["millrace_watch_slo_met"] != count(f.met) {
			return fmt.Errorf("met is %v and %v in the metrics, want %v: %+v", r.slo.Met, r.metrics["millrace_watch_slo_met"], f.met, r.slo)
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

// shown waits until the outputs of `millrace top` name the fault.
func (d *drill) shown(f fault) {
	d.t.Helper()
	for _, args := range [][]string{{}, {"slo"}} {
		var output string
		err := harness.Until(patience, func() error {
			output = d.runTop(args...)
			for _, line := range strings.Split(output, "\n") {
				if strings.Contains(line, fmt.Sprintf(" %s (%s)", f.words, f.severity)) && strings.Contains(line, f.client) && strings.Contains(line, f.resource) {
					return nil
				}
			}
			return fmt.Errorf("top %v does not tell of %q of %q %q:\n%s", args, f.words, f.resource, f.client, output)
		})
		check(d.t, err)
	}
	var all struct {
		SLO report.SLOReport `json:"slo"`
	}
	check(d.t, json.Unmarshal([]byte(d.runTop("-o", "json")), &all))
	if err := f.in(all.SLO.Causes); err != nil || all.SLO.Met != f.met {
		d.t.Errorf("top -o json: met %v, %v", all.SLO.Met, err)
	}
}

// runTop runs `millrace top --once` and returns what it prints.
func (d *drill) runTop(args ...string) string {
	d.t.Helper()
	output, code := harness.Run(d.t, append([]string{"top", "--once", "--kubeconfig=" + d.Kubeconfig()}, args...)...)
	if code != 0 {
		d.t.Fatalf("top %v ends with %d:\n%s", args, code, output)
	}
	return output
}

// missed says that the objective of config maps was missed for a cause, and that
// budget is used up.
func missed(cause report.Cause) func(*readings) error {
	return func(r *readings) error { return r.missed("configmaps", cause) }
}

func (r *readings) missed(resource string, cause report.Cause) error {
	for _, s := range r.slo.Resources {
		if s.Resource != resource {
			continue
		}
		if late := r.metrics[fmt.Sprintf("millrace_watch_late_events_total{resource=%q}", resource)]; s.Met || s.Cause != cause || s.Late == 0 || s.Burn.FiveMinutes <= 1 || late < float64(s.Late) {
			return fmt.Errorf("want %s missed for %s, late by the metrics %v: %+v", resource, cause, late, s)
		}
		return nil
	}
	return fmt.Errorf("nothing of %s in %+v", resource, r.slo)
}

// behind says that a client's watch waits for its client or connection.
func behind(agent, state string) func(*readings) error {
	return func(r *readings) error { return r.behind(agent, state) }
}

// nobodyBehind says that all was sent.
func nobodyBehind(r *readings) error {
	if r.watchers.Waiting > 0 || r.metrics["millrace_watch_behind"] != 0 {
		return fmt.Errorf("somebody is behind: %+v", r.watchers.Behind)
	}
	return nil
}

// lateAlone says that no client but those named so had late events.
func lateAlone(agent string) func(*readings) error {
	return func(r *readings) error {
		for _, c := range r.slo.Clients {
			if (c.Late > 0) != strings.HasPrefix(c.UserAgent, agent) {
				return fmt.Errorf("the wrong client is late: %+v", c)
			}
		}
		return nil
	}
}

func (r *readings) behind(agent, state string) error {
	if r.metrics["millrace_watch_behind"] < 1 || r.metrics["millrace_watch_behind_seconds_max"] <= 0 || r.watchers.Waiting < 1 {
		return fmt.Errorf("nobody is behind: %v, %v, %+v", r.metrics["millrace_watch_behind"], r.metrics["millrace_watch_behind_seconds_max"], r.watchers)
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
