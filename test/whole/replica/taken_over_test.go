package replica

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// watchSeries matches Kubernetes' counters and gauges of watches on config maps.
var watchSeries = regexp.MustCompile(`(?m)^((?:apiserver_request_total|apiserver_longrunning_requests|apiserver_watch_events_total|apiserver_request_duration_seconds_count|apiserver_request_terminations_total|apiserver_request_aborts_total)\{[^}]*\}) (\S+)$`)

// watchMetrics returns the series of watches on config maps that are not 0.
func watchMetrics(t *testing.T, s *harness.Server) map[string]float64 {
	t.Helper()
	scrape := must(fetch(t.Context(), s.Config(), "/metrics"))(t)
	found := map[string]float64{}
	for _, m := range watchSeries.FindAllStringSubmatch(scrape.body, -1) {
		if strings.Contains(m[1], `resource="configmaps"`) {
			found[m[1]] = must(strconv.ParseFloat(m[2], 64))(t)
		}
	}
	return found
}

// increase returns by how much series have grown, without those that have not.
func increase(before, after map[string]float64) map[string]float64 {
	grown := maps.Clone(after)
	for name, value := range before {
		grown[name] -= value
	}
	maps.DeleteFunc(grown, func(_ string, by float64) bool { return by == 0 })
	return grown
}

// events returns the events of one request without its version and times, one in a line.
func (l *auditLog) events(t *testing.T, id string) (all []string) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(l.file))(t))) {
		var event map[string]any
		if json.Unmarshal([]byte(line), &event) != nil || event["auditID"] != id {
			continue // of another request, or not whole yet
		}
		for _, volatile := range []string{"auditID", "requestURI", "requestReceivedTimestamp", "stageTimestamp", "annotations"} {
			delete(event, volatile)
		}
		all = append(all, string(must(json.Marshal(event))(t)))
	}
	return all
}

// TestTakenOverWatchesAreAccounted watches through a replica from a version that only the
// upstream has, until the replica has taken the watch over, and from a version of the replica.
// The audit log and Kubernetes' metrics tell the same of both.
func TestTakenOverWatchesAreAccounted(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	client := clientset(t, upstream.Config()).CoreV1().ConfigMaps("default")
	write := func(name string) string {
		t.Helper()
		return must(client.Create(t.Context(), configMap(name), metav1.CreateOptions{}))(t).ResourceVersion
	}
	old := write("old")
	write("missed")
	log, flags := audited(t)
	replica := harness.StartReplica(t, upstream, append(flags, "--follow=configmaps")...)
	takenOver := func() int { return counter(t, replica, "millrace_watch_taken_over_total") }
	// watch opens a watch, and closes it after an event that was written once ready has returned.
	watch := func(id, version string, ready func()) (events []string, grown map[string]float64) {
		t.Helper()
		before := watchMetrics(t, replica)
		req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, replica.URL+"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion="+version, nil))(t)
		req.Header.Set("Audit-ID", id)
		resp := must(replica.HTTPClient().Do(req))(t)
		defer resp.Body.Close()
		ready()
		write(id)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), `"name":"`+id+`"`) {
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of "+id, func() error {
			if events = log.events(t, id); !slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, `"stage":"ResponseComplete"`) }) {
				return notYet("audited: %s", events)
			}
			if grown = increase(before, watchMetrics(t, replica)); grown[`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="WATCH",version="v1"}`] == 0 {
				return notYet("metrics: %v", grown)
			}
			return nil
		})
		return events, grown
	}
	passedEvents, passedGrown := watch("passed-on", old, func() {
		write("moves-on") // so that the client is past the beginning of the replica's history
		eventually(t, "the watch to be taken over", func() error {
			if takenOver() == 0 {
				return notYet("not taken over")
			}
			return nil
		})
	})
	current := must(client.List(t.Context(), metav1.ListOptions{}))(t).ResourceVersion
	events, grown := watch("here", current, func() {})
	if n := takenOver(); n != 1 {
		t.Errorf("%d watches were taken over, want 1", n)
	}
	if !slices.Equal(events, passedEvents) {
		t.Errorf("audited:\n%s\nand of the watch that was taken over:\n%s", strings.Join(events, "\n"), strings.Join(passedEvents, "\n"))
	}
	if !maps.Equal(grown, passedGrown) {
		t.Errorf("metrics have grown by\n%v\nand for the watch that was taken over by\n%v", grown, passedGrown)
	}
}
