package analyze

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// logWriter writes audit events of an hour.
type logWriter struct {
	events []stampedLine
	t0     time.Time
}

type stampedLine struct {
	at   time.Duration
	line string
}

// agent is a sender of requests.
type agent struct{ user, userAgent, address, pod string }

// add adds an event that ends at a time of the hour.
func (w *logWriter) add(who agent, verb, uri string, at, lasted time.Duration, code int) {
	stages := []string{"ResponseComplete"}
	if verb == "watch" {
		w.event(who, verb, uri, "ResponseStarted", at, time.Millisecond, code)
		at += lasted
	}
	for _, stage := range stages {
		w.event(who, verb, uri, stage, at, lasted, code)
	}
}

func (w *logWriter) event(who agent, verb, uri, stage string, at, lasted time.Duration, code int) {
	const form = "2006-01-02T15:04:05.000000Z"
	extra := map[string][]string{}
	if who.pod != "" {
		extra["authentication.kubernetes.io/pod-name"] = []string{who.pod}
	}
	line, _ := json.Marshal(map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "00000000-0000-0000-0000-000000000000", "stage": stage, "requestURI": uri, "verb": verb,
		"user": map[string]any{"username": who.user, "groups": []string{"system:authenticated"}, "extra": extra}, "sourceIPs": []string{who.address}, "userAgent": who.userAgent,
		"responseStatus": map[string]any{"metadata": map[string]any{}, "code": code}, "annotations": map[string]string{"authorization.k8s.io/decision": "allow"},
		"requestReceivedTimestamp": w.t0.Add(at - lasted).Format(form), "stageTimestamp": w.t0.Add(at).Format(form),
	})
	w.events = append(w.events, stampedLine{at, string(line)})
}

func (w *logWriter) bytes() []byte {
	slices.SortStableFunc(w.events, func(a, b stampedLine) int { return int(a.at - b.at) })
	var b bytes.Buffer
	for _, e := range w.events {
		b.WriteString(e.line + "\n")
	}
	return b.Bytes()
}

const hour = time.Hour

// informer adds a client-go informer that behaves: a LIST, then watches of some minutes.
func (w *logWriter) informer(who agent, path, query string, began time.Duration) {
	w.add(who, "list", path+"?"+query+"limit=500&resourceVersion=0", began, 50*time.Millisecond, 200)
	for at, i := began, 0; at < hour; i++ {
		lasted := time.Duration(300+37*i%300) * time.Second
		w.add(who, "watch", fmt.Sprintf("%s?%sallowWatchBookmarks=true&resourceVersion=%d&timeoutSeconds=%d&watch=true", path, query, 1000+i, int(lasted.Seconds())), at, lasted, 200)
		at += lasted
	}
}

func (w *logWriter) every(period time.Duration, do func(at time.Duration)) {
	for at := period / 3; at < hour; at += period {
		do(at)
	}
}

const testNodes = 60

func daemon(name string, i int) agent {
	return agent{"system:serviceaccount:agents:" + name, name + "/v1.2 (linux/amd64)", fmt.Sprintf("10.0.%d.%d", i/250, i%250), fmt.Sprintf("%s-%d", name, i)}
}

// addInnocents adds clients that do what they should.
func (w *logWriter) addInnocents() {
	for i := range testNodes {
		node := fmt.Sprintf("node-%d", i)
		kubelet := agent{"system:node:" + node, "kubelet/v1.37.2 (linux/amd64)", fmt.Sprintf("10.0.%d.%d", i/250, i%250), ""}
		w.informer(kubelet, "/api/v1/pods", "fieldSelector="+url.QueryEscape("spec.nodeName="+node)+"&", time.Duration(i)*time.Second)
		w.informer(kubelet, "/api/v1/nodes", "fieldSelector="+url.QueryEscape("metadata.name="+node)+"&", time.Duration(i)*time.Second)
		w.informer(kubelet, "/api/v1/services", "", time.Duration(i)*time.Second)
		w.every(time.Minute, func(at time.Duration) {
			w.add(kubelet, "update", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+node+"?timeout=10s", at, 3*time.Millisecond, 200)
		})
		w.every(5*time.Minute, func(at time.Duration) {
			w.add(kubelet, "get", "/api/v1/nodes/"+node+"?resourceVersion=0&timeout=10s", at, time.Millisecond, 200)
			w.add(kubelet, "patch", "/api/v1/nodes/"+node+"/status?timeout=10s", at, 5*time.Millisecond, 200)
		})
		good := daemon("good-agent", i)
		watchList := "/api/v1/pods?allowWatchBookmarks=true&fieldSelector=" + url.QueryEscape("spec.nodeName="+node) + "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
		w.add(good, "watch", watchList, time.Duration(i)*time.Second, 55*time.Minute, 200)
	}
	manager := agent{"system:kube-controller-manager", "kube-controller-manager/v1.37.2 (linux/amd64)", "10.9.0.1", ""}
	operator := agent{"system:serviceaccount:ops:good-operator", "good-operator/v0.1", "10.9.0.2", "good-operator-0"}
	for _, path := range []string{"/api/v1/pods", "/api/v1/nodes", "/api/v1/configmaps", "/apis/apps/v1/deployments"} {
		w.informer(manager, path, "", time.Second)
		for i := range 3 { // replicas
			operator.pod = fmt.Sprintf("good-operator-%d", i)
			w.informer(operator, path, "", 2*time.Second)
		}
	}
	w.every(2*time.Second, func(at time.Duration) {
		for _, verb := range []string{"get", "update"} {
			w.add(operator, verb, "/apis/coordination.k8s.io/v1/namespaces/ops/leases/good-operator", at, 2*time.Millisecond, 200)
		}
	})
	person := agent{"jane@example.org", "kubectl/v1.37.2 (linux/amd64)", "192.0.2.7", ""}
	w.every(4*time.Minute, func(at time.Duration) {
		w.add(person, "list", "/api/v1/namespaces/team-a/pods?limit=500", at, 20*time.Millisecond, 200)
	})
}

// planted are the kinds and clients of the findings that addOffenders must cause.
var planted = []string{
	"revision-unset unset-agent", "limit-ignored pager", "all-namespaces wide-lister", "relist-loop looper", "no-bookmarks no-marks",
	"json OpenAPI-Generator", "polling ds-poller", "short-watches restless", "namespace-selector ns-field", "polling get-poller",
}

// addOffenders adds clients that do one thing wrong each.
func (w *logWriter) addOffenders() {
	for i := range testNodes {
		node := url.QueryEscape(fmt.Sprintf("spec.nodeName=node-%d", i))
		unset := daemon("unset-agent", i)
		w.every(30*time.Second, func(at time.Duration) {
			w.add(unset, "list", "/api/v1/pods?fieldSelector="+node, at, 9*time.Millisecond, 200)
		})
		poller := daemon("ds-poller", i)
		w.every(time.Minute, func(at time.Duration) {
			w.add(poller, "list", "/api/v1/pods?labelSelector=app%3Dx&resourceVersion=0", at, 9*time.Millisecond, 200)
		})
	}
	single := func(name string) agent { return daemon(name, 1) }
	w.every(2*time.Minute, func(at time.Duration) {
		w.add(single("pager"), "list", "/api/v1/pods?limit=500&resourceVersion=0", at, time.Second, 200)
	})
	w.every(5*time.Minute, func(at time.Duration) {
		w.add(single("wide-lister"), "list", "/api/v1/pods?resourceVersion=0", at, time.Second, 200)
		w.add(single("wide-lister"), "patch", "/api/v1/namespaces/team-a/pods/p1", at, time.Millisecond, 200)
		w.add(single("no-marks"), "list", "/api/v1/configmaps?limit=500&resourceVersion=0", at, time.Second, 200)
		w.add(single("no-marks"), "watch", "/api/v1/configmaps?resourceVersion=7&watch=true", at, 4*time.Minute, 200)
	})
	w.every(30*time.Second, func(at time.Duration) {
		w.add(single("looper"), "list", "/api/v1/pods?limit=500&resourceVersion=0", at, time.Second, 200)
		w.add(single("looper"), "watch", "/api/v1/pods?allowWatchBookmarks=true&resourceVersion=5&watch=true", at, 90*time.Second, 410)
	})
	for i := range 10 {
		python := agent{"ci-bot", "OpenAPI-Generator/31.0.0/python", fmt.Sprintf("192.0.2.%d", i), ""}
		w.every(20*time.Minute, func(at time.Duration) {
			w.add(python, "list", "/api/v1/pods?resourceVersion=0", at, time.Second, 200)
			w.add(python, "watch", "/api/v1/pods?allowWatchBookmarks=true&resourceVersion=5&watch=true", at, 19*time.Minute, 200)
		})
	}
	w.every(8*time.Second, func(at time.Duration) {
		w.add(single("ns-field"), "list", "/api/v1/configmaps?fieldSelector=metadata.namespace%3Dteam-b&resourceVersion=0", at, 50*time.Millisecond, 200)
	})
	for i := range 10 {
		w.every(5*time.Second, func(at time.Duration) {
			w.add(daemon("restless", i), "watch", "/api/v1/services?allowWatchBookmarks=true&resourceVersion=5&watch=true", at, 5*time.Second, 200)
		})
	}
	w.every(500*time.Millisecond, func(at time.Duration) {
		w.add(single("get-poller"), "get", "/api/v1/namespaces/team-a/configmaps/flags", at, time.Millisecond, 200)
	})
}

// testProfile has 60 nodes and 6,000 pods.
func testProfile() *clusterprofile.Profile {
	return &clusterprofile.Profile{Resources: []clusterprofile.Resource{
		{Resource: "pods", Objects: 6000, Bytes: 8000, ProtobufBytes: 5600, Namespaces: 60, Labels: []clusterprofile.Key{{Key: "app", Objects: 6000, Values: 300}}, Fields: []clusterprofile.Key{{Key: nodeField, Objects: 6000, Values: testNodes}}},
		{Resource: "nodes", Objects: testNodes, Bytes: 12000},
		{Resource: "configmaps", Objects: 20000, Bytes: 4000, Namespaces: 60},
		{Resource: "services", Objects: 500, Bytes: 2000, Namespaces: 60},
		{Resource: "deployments.apps", Objects: 600, Bytes: 6000, Namespaces: 60},
	}}
}

// inputs writes a log and a profile, and returns their files.
func inputs(t *testing.T, log []byte) (logFile, profileFile string) {
	t.Helper()
	dir := t.TempDir()
	logFile, profileFile = filepath.Join(dir, "audit.log"), filepath.Join(dir, "cluster.json")
	encoded, err := json.Marshal(testProfile())
	if err == nil {
		err = os.WriteFile(profileFile, encoded, 0o600)
	}
	if err == nil {
		err = os.WriteFile(logFile, log, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return logFile, profileFile
}

// execute runs the command.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := NewCommand("test")
	var out, errOut bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetIn(strings.NewReader(""))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(context.Background())
	return out.String(), errOut.String(), err
}

// runAnalysis returns the report on a log, some of which may be lost.
func runAnalysis(t *testing.T, log []byte, args ...string) *Report {
	t.Helper()
	logFile, profileFile := inputs(t, log)
	out, _, err := execute(t, append([]string{logFile, "--profile=" + profileFile, "-o", "json"}, args...)...)
	if lost := (*auditlog.LostError)(nil); err != nil && !errors.As(err, &lost) {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func newLog() *logWriter {
	return &logWriter{t0: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)}
}

func TestPlantedOffendersAreFound(t *testing.T) {
	w := newLog()
	w.addInnocents()
	w.addOffenders()
	log := w.bytes()
	for _, version := range []string{"1.37", "1.30"} {
		r := runAnalysis(t, log, "--server-version="+version)
		var found []string
		for i, f := range r.Findings {
			found = append(found, f.Kind+" "+f.UserAgent)
			if f.Sentence == "" || f.Setting == "" || f.Request == "" || f.Why == "" {
				t.Errorf("%s %s is not explained: %+v", f.Kind, f.UserAgent, f)
			}
			if i > 0 && f.SavedCPU > r.Findings[i-1].SavedCPU {
				t.Errorf("finding %d saves more than the one before", i)
			}
		}
		for _, want := range planted {
			if !slices.Contains(found, want) {
				t.Errorf("%s: %s is not found in %q", version, want, found)
			}
		}
		for _, f := range r.Findings {
			if !slices.ContainsFunc(planted, func(p string) bool { return strings.HasSuffix(p, " "+f.UserAgent) }) {
				t.Errorf("%s: %s is accused: %s", version, f.UserAgent, f.Sentence)
			}
		}
		if version == "1.30" && r.Findings[0].UserAgent != "unset-agent" {
			t.Errorf("before consistent reads from the cache, the first finding is %s: %s", r.Findings[0].UserAgent, r.Findings[0].Sentence)
		}
	}
}

func TestInnocentsAreNotAccused(t *testing.T) {
	w := newLog()
	w.addInnocents()
	r := runAnalysis(t, w.bytes())
	if len(r.Findings) > 0 {
		t.Errorf("accused: %s", r.Findings[0].Sentence)
	}
	kubelets := slices.IndexFunc(r.Clients, func(c ClientCost) bool { return c.UserAgent == "kubelet" })
	if kubelets < 0 || r.Clients[kubelets].User != auditlog.NodeUser || r.Clients[kubelets].Fleet != testNodes {
		t.Errorf("kubelets are not one client of %d: %+v", testNodes, r.Clients)
	}
}
