package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// endTimeout is how long a command may take to end after an interrupt.
const endTimeout = 10 * time.Second

// tool is a command that is ended half way.
type tool struct {
	args []string
	// server is the flag that names the kubeconfig, and empty for --kubeconfig.
	server string
	// half is a path whose list has objects when the command is half way.
	half string
	// cleanup removes what a run has left. A tidy command leaves nothing when it is
	// interrupted.
	cleanup []string
	tidy    bool
	// left are the lists that have to be empty in the end.
	left []string
	// says begins the last line of an interrupted run.
	says string
}

func tools(log string) map[string]tool {
	const label = "?limit=500&labelSelector="
	fillLists := []string{
		"/api/v1/pods" + label + "millrace.io/fill%3D1", "/api/v1/nodes" + label + "millrace.io/fill%3D1", "/api/v1/namespaces" + label + "millrace.io/fill%3D1",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions" + label + "millrace.io/fill%3D2",
	}
	return map[string]tool{
		"fill": {
			args: strings.Fields("fill --pods=200000 --nodes=20 --namespaces=3"), half: fillLists[0], cleanup: []string{"fill", "--delete"},
			left: fillLists[:3], says: "millrace-lab: interrupted; repeat the command to go on where it stopped",
		},
		"fill definitions": {
			args: strings.Fields("fill --seed=2 --crds=10 --objects=200000 --namespaces=3"), half: fillLists[3], cleanup: []string{"fill", "--seed=2", "--delete"}, left: fillLists[3:],
		},
		"hollow": {
			args: strings.Fields("hollow --nodes=3 --pods=2 --start=storm"), half: "/api/v1/nodes" + label + "millrace.io/hollow", cleanup: []string{"hollow", "--delete"},
			left: []string{"/api/v1/pods" + label + "millrace.io/hollow", "/api/v1/nodes" + label + "millrace.io/hollow", "/apis/coordination.k8s.io/v1/leases" + label + "millrace.io/hollow"},
		},
		"verify": {
			args: strings.Fields("verify --duration=10m"), half: "/apis/coordination.k8s.io/v1/leases" + label + "half", cleanup: []string{"verify", "--delete"},
			left: []string{"/apis/coordination.k8s.io/v1/leases" + label + "half", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" + label + "millrace.io/verify"},
			says: "millrace-tools: interrupted", tidy: true,
		},
		"replay": {args: []string{"replay", log}, says: "millrace-tools: interrupted"},
		"bench watch": {
			args: strings.Fields("bench watch --workloads=names-1000 --scale=0.02 --duration=10m"), server: "--at=", tidy: true,
			cleanup: strings.Fields("bench watch --workloads=names-1000 --scale=0.02 --duration=100ms --warmup=0s --settle=0s"), half: "/api/v1/configmaps" + label + "bench.millrace.io/watch",
			left: []string{"/api/v1/configmaps" + label + "bench.millrace.io/watch"},
		},
	}
}

// TestKilledTools ends commands half way, by SIGINT and by SIGKILL. An interrupted one says so
// in a line, and soon. What a killed one has left, --delete or the next run removes. Neither
// leaves files or processes.
func TestKilledTools(t *testing.T) {
	s := harness.Start(t, harness.ShortTempDir(t), "--disable-admission-plugins=ServiceAccount")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	log := slowLog(t)
	t.Run("group", func(t *testing.T) {
		for name, c := range tools(log) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c.endHalfWay(t, s)
			})
		}
	})
	if left, _ := filepath.Glob(filepath.Join(temporary, "*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// endHalfWay runs the command twice.
func (c *tool) endHalfWay(t *testing.T, s *harness.Server) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		if c.half == "" { // the watch of the run before has to end
			eventually(t, func(ctx context.Context) error {
				if inFlight(ctx, s) == nil {
					return errors.New("a watch")
				}
				return nil
			})
		}
		p := harness.Command(t, append(c.args, cmp.Or(c.server, "--kubeconfig=")+s.Kubeconfig())...)
		eventually(t, func(ctx context.Context) error { return c.isHalfWay(ctx, s, p) })
		p.Signal(signal)
		if err := p.Wait(endTimeout); signal == syscall.SIGINT && c.says != "" && (err == nil || !strings.HasPrefix(lastLine(p.Output()), c.says)) {
			t.Errorf("interrupted: %v, and it says %q, want %q", err, lastLine(p.Output()), c.says)
		}
		if c.cleanup != nil && (signal == syscall.SIGKILL || !c.tidy) {
			if out, code := harness.Run(t, append(c.cleanup, cmp.Or(c.server, "--kubeconfig=")+s.Kubeconfig())...); code != 0 {
				t.Errorf("%v: code %d: %s", c.cleanup, code, out)
			}
		}
		for _, path := range c.left {
			if n := count(t, s, path); n != 0 {
				t.Errorf("%v left %d objects in %s", signal, n, path)
			}
		}
	}
}

// isHalfWay returns an error until a command has made objects.
func (c *tool) isHalfWay(ctx context.Context, s *harness.Server, p *harness.Process) error {
	select {
	case <-p.Done():
		return fmt.Errorf("it has ended: %s", p.Output())
	default:
	}
	if c.half == "" {
		return inFlight(ctx, s)
	}
	n, err := list(ctx, s, c.half)
	if err == nil && n == 0 {
		err = errors.New("it has not begun")
	}
	return err
}

// inFlight returns an error unless the server has a watch of the log's program.
func inFlight(ctx context.Context, s *harness.Server) error {
	_, body, err := fetch(ctx, s, s.HTTPClient(), "/metrics", "")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, `apiserver_longrunning_requests{component="apiserver",group="",resource="podtemplates"`) && !strings.HasSuffix(line, " 0\n") {
			return nil
		}
	}
	return errors.Join(errors.New("no watch"), err)
}

func list(ctx context.Context, s *harness.Server, path string) (int, error) {
	code, body, err := fetch(ctx, s, s.HTTPClient(), path, "application/json")
	if err != nil || code != 200 {
		return 0, errors.Join(err, fmt.Errorf("list %s: %d", path, code))
	}
	var l struct {
		Items []metav1.PartialObjectMetadata `json:"items"`
	}
	err = json.Unmarshal([]byte(body), &l)
	n := 0
	for i := range l.Items {
		if l.Items[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n, err
}

func count(t *testing.T, s *harness.Server, path string) int {
	t.Helper()
	n, err := list(t.Context(), s, path)
	check(t, err)
	return n
}

// slowLog writes an audit log of a watch that lasts an hour.
func slowLog(t *testing.T) string {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	event := func(stage string, at time.Time) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"w","stage":%q,"requestURI":"/api/v1/podtemplates?watch=true","verb":"watch","user":{"username":"u"},"userAgent":"agent","sourceIPs":["10.0.0.1"],"objectRef":{"resource":"podtemplates","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":%q,"stageTimestamp":%q}`,
			stage, now.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano)) + "\n"
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	check(t, os.WriteFile(file, []byte(event("ResponseStarted", now)+event("ResponseComplete", now.Add(time.Hour))), 0o600))
	return file
}
