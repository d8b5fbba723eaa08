package analyze

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

const restlessWatch = "/api/v1/services?allowWatchBookmarks=true&resourceVersion=5&watch=true"

// addWrites adds n changes of services, spread over the hour.
func (w *logWriter) addWrites(n int) {
	writer := agent{"system:kube-controller-manager", "kube-controller-manager/v1.37.2", "10.9.0.1", ""}
	w.every(hour/time.Duration(n), func(at time.Duration) {
		w.add(writer, "update", "/api/v1/namespaces/team-a/services/s1", at, time.Millisecond, 200)
	})
}

// addRestless adds instances that begin a watch every 5 seconds.
func (w *logWriter) addRestless(who string, instances int, query string) {
	for i := range instances {
		w.every(5*time.Second, func(at time.Duration) { w.add(daemon(who, i), "watch", restlessWatch+query, at, 5*time.Second, 200) })
	}
}

func kinds(r *Report) (all []string) {
	for i := range r.Findings {
		all = append(all, r.Findings[i].Kind+" "+r.Findings[i].UserAgent)
	}
	return all
}

func TestShortWatchesSaveTheirBeginningsOnly(t *testing.T) {
	w := newLog()
	w.addWrites(7200)
	w.addRestless("restless", 10, "")
	w.addRestless("restless", 10, "&labelSelector=app%3Dx")
	r := runAnalysis(t, w.bytes())
	if len(r.Findings) != 1 || r.Findings[0].Kind != kindShortWatches {
		t.Fatalf("got %q", kinds(r))
	}
	f := &r.Findings[0]
	// 2 shapes of 10 instances with 720 watches each, at 770 µs.
	begin := 2 * 10 * 720 * 770e-6
	if want := begin * (1 - 5./300); math.Abs(f.SavedCPU-want) > 0.01*want || f.SavedBytes != 0 {
		t.Errorf("saves %.2f s and %.0f bytes, want %.2f s and none", f.SavedCPU, f.SavedBytes, want)
	}
	if f.Cost.CPU < begin+1 {
		t.Errorf("costs %.2f s: the events are missing", f.Cost.CPU)
	}
	if !strings.HasPrefix(f.Why, "14400 watches ended, after 5") || !strings.Contains(f.Why, "2 shapes") {
		t.Errorf("the cost is not that of both shapes: %s", f.Why)
	}
	if f.Instead == f.Request || !strings.Contains(f.Instead, "resourceVersion=…") || !strings.Contains(f.Instead, "timeoutSeconds=300") {
		t.Errorf("now %s, instead %s", f.Request, f.Instead)
	}
}

func TestRelistLoopSavesNoEvents(t *testing.T) {
	w := newLog()
	w.addWrites(7200)
	for i := range 10 {
		w.every(5*time.Second, func(at time.Duration) {
			w.add(daemon("looper", i), "watch", "/api/v1/services?allowWatchBookmarks=true&resourceVersion=0&watch=true", at, 5*time.Second, 200)
		})
	}
	r := runAnalysis(t, w.bytes())
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == kindRelistLoop })
	if i < 0 {
		t.Fatalf("got %q", kinds(r))
	}
	begin := 10 * 720 * (770e-6 + 500*2000*7.71e-9)
	if want := begin * (1 - 1./720); math.Abs(r.Findings[i].SavedCPU-want) > 0.01*want {
		t.Errorf("saves %.2f s, want %.2f s", r.Findings[i].SavedCPU, want)
	}
}

func TestWatchesAreSentTheEventsOfTheirTime(t *testing.T) {
	const writes = 3600
	for name, c := range map[string]struct {
		plant func(w *logWriter)
		want  float64
	}{
		"two watches of 3 minutes": {func(w *logWriter) {
			for i := range 2 {
				w.add(daemon("watcher", 1), "watch", restlessWatch, time.Duration(1+20*i)*time.Minute, 3*time.Minute, 200)
			}
		}, 0.1},
		"the same of two instances": {func(w *logWriter) {
			for i := range 4 {
				w.add(daemon("watcher", i%2), "watch", restlessWatch, time.Duration(1+10*i)*time.Minute, 3*time.Minute, 200)
			}
		}, 0.2},
		"three at once": {func(w *logWriter) {
			for range 3 {
				w.add(daemon("watcher", 1), "watch", restlessWatch, time.Minute, 50*time.Minute, 200)
			}
		}, 1},
		"one that does not end": {func(w *logWriter) {
			w.event(daemon("watcher", 1), "watch", restlessWatch, "ResponseStarted", time.Second, time.Millisecond, 200)
		}, 1},
		"the last of six of 9 minutes does not end": {func(w *logWriter) {
			for i := range 5 {
				w.add(daemon("watcher", 1), "watch", restlessWatch, time.Duration(10*i)*time.Minute, 9*time.Minute, 200)
			}
			w.event(daemon("watcher", 1), "watch", restlessWatch, "ResponseStarted", 50*time.Minute, time.Millisecond, 200)
		}, 55. / 60},
	} {
		w := newLog()
		w.addWrites(writes)
		c.plant(w)
		r := runAnalysis(t, w.bytes())
		i := slices.IndexFunc(r.Shapes, func(s ShapeCost) bool { return s.UserAgent == "watcher" })
		if got := float64(r.Shapes[i].Objects) / writes; math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: %.3f of the events, want %.3f", name, got, c.want)
		}
	}
}

func TestReplicaIsNotAccused(t *testing.T) {
	w := newLog()
	for i := range 3 {
		who := agent{"system:serviceaccount:millrace:replica", "millrace-replica", fmt.Sprintf("10.0.0.%d", i), ""}
		w.every(time.Second, func(at time.Duration) {
			w.add(who, "watch", "/api/v1/services?allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=3&watch=true", at, 3*time.Second, 200)
			w.add(who, "list", "/api/v1/configmaps?resourceVersion=0", at, time.Millisecond, 200)
		})
	}
	for _, args := range [][]string{nil, {"--hash-names"}} {
		if r := runAnalysis(t, w.bytes(), args...); len(r.Findings) > 0 {
			t.Errorf("%v: accused: %q", args, kinds(r))
		}
	}
	if text := flowSchema(&Finding{Client: runAnalysis(t, w.bytes()).Clients[0].Client, Resource: "services"}); text != "" {
		t.Errorf("held back:\n%s", text)
	}
}

// A finding that saves nothing to speak of must not fail a build.
func TestFindingsAreWorthIt(t *testing.T) {
	w := newLog()
	w.addInnocents()
	w.every(time.Minute, func(at time.Duration) {
		w.add(daemon("restless", 1), "watch", restlessWatch, at, 30*time.Second, 200)
	})
	for i := range 6 {
		w.add(daemon("no-marks", 1), "watch", "/api/v1/configmaps?resourceVersion=7&watch=true", time.Duration(9*i)*time.Minute, 9*time.Minute, 200)
		w.add(daemon("no-marks-small", 1), "list", "/api/v1/namespaces/team-a/services?resourceVersion=0", time.Duration(9*i)*time.Minute, time.Millisecond, 200)
		w.add(daemon("no-marks-small", 1), "watch", "/api/v1/namespaces/team-a/services?resourceVersion=7&watch=true", time.Duration(9*i)*time.Minute, 9*time.Minute, 200)
	}
	w.every(time.Minute, func(at time.Duration) {
		w.add(daemon("unset", 1), "list", "/api/v1/namespaces/team-a/services", at, time.Millisecond, 200)
	})
	logFile, profileFile := inputs(t, w.bytes())
	if out, _, err := execute(t, logFile, "--profile="+profileFile, "--fail-on=findings>0"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWatchesWithoutBookmarksSaveRelists(t *testing.T) {
	w := newLog()
	for i := range 6 {
		at := time.Duration(9*i) * time.Minute
		w.add(daemon("no-marks", 1), "list", "/api/v1/configmaps?resourceVersion=0", at, time.Second, 200)
		w.add(daemon("no-marks", 1), "list", "/api/v1/configmaps?labelSelector=a%3Db&resourceVersion=0", at, time.Second, 200)
		w.add(daemon("no-marks", 1), "watch", "/api/v1/configmaps?resourceVersion=7&watch=true", at, 9*time.Minute, 200)
	}
	r := runAnalysis(t, w.bytes())
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == kindNoBookmarks })
	if i < 0 {
		t.Fatalf("got %q", kinds(r))
	}
	f := &r.Findings[i]
	if want := 5 * (453e-6 + 20000*4000*8.62e-9); math.Abs(f.SavedCPU-want) > 0.01*want || f.SavedBytes != 5*20000*4000 {
		t.Errorf("saves %.2f s and %.0f bytes, want %.2f s", f.SavedCPU, f.SavedBytes, want)
	}
	if want := "6 watches started, 0 ended with 410; 5 LISTs came after the first LIST"; !strings.HasPrefix(f.Why, want) {
		t.Errorf("got %q", f.Why)
	}
}

func TestReplicaIsNotAdvised(t *testing.T) {
	shape := serverreport.ListShape{Advice: []string{"List in pages."}, Clients: []serverreport.Client{{User: "system:serviceaccount:millrace:replica", UserAgent: "millrace-replica"}}}
	other := shape
	other.Clients = []serverreport.Client{{User: "jane", UserAgent: "agent"}}
	r := &Report{}
	r.fillAccounts(&serverreport.ListsReport{Shapes: []serverreport.ListShape{shape, other}})
	if len(r.Findings) != 1 || r.Findings[0].User != "jane" {
		t.Errorf("got %q", kinds(r))
	}
}

// TestInstancesBehindOneAddress has a fleet that comes from one address, that of a proxy. Each
// instance lists once and watches for 9 minutes, which is no relist loop. Another program has
// relist loops for two collections, which are one finding.
func TestInstancesBehindOneAddress(t *testing.T) {
	w := newLog()
	w.addWrites(7200)
	fleet, looper := daemon("fleet", 1), daemon("looper", 2)
	for i := range 40 {
		at := time.Duration(i) * time.Second
		w.add(fleet, "list", "/api/v1/services?resourceVersion=0", at, time.Millisecond, 200)
		w.add(fleet, "watch", restlessWatch, at, 58*time.Minute, 200)
	}
	w.every(10*time.Second, func(at time.Duration) {
		for _, resource := range []string{"services", "configmaps"} {
			w.add(looper, "list", "/api/v1/"+resource+"?resourceVersion=0", at, time.Millisecond, 200)
			w.add(looper, "watch", "/api/v1/"+resource+"?allowWatchBookmarks=true&resourceVersion=5&watch=true", at, 9*time.Second, 200)
		}
	})
	r := runAnalysis(t, w.bytes())
	var loops []Finding
	for _, f := range r.Findings {
		if f.UserAgent == "fleet" {
			t.Errorf("accused of %s: %s", f.Kind, f.Sentence)
		}
		if f.Kind == kindRelistLoop {
			loops = append(loops, f)
		}
	}
	if len(loops) != 1 || len(loops[0].FurtherCollections) != 1 {
		t.Errorf("got %q, want one finding for both collections", kinds(r))
	}
}
