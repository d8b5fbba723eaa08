package watch

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

func quickArgs(args ...string) []string {
	return append([]string{"watch", "--scale=0.004", "--duration=200ms", "--warmup=50ms", "--settle=0s", "--rest=1ms"}, args...)
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	out, progress, err := run(t, quickArgs("--compare", "--work-dir="+dir, "--workloads=all", "--secrets=7", "-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Servers) != 2 || len(got.Floor) != 4 || len(got.FloorInformers) != 1 || len(got.Notes) != 0 || len(got.Data) != 2 {
		t.Fatalf("got %+v", got)
	}
	for _, s := range eventWorkloads() {
		s = s.scale(0.004)
		results := [][]result{got.Floor}
		if s.kind != watchFloor {
			results = [][]result{got.Servers[0].Results, got.Servers[1].Results}
		}
		for _, in := range results {
			res := findResult(in, s.name)
			if res == nil || res.Watchers != s.watchers || res.Events != res.Writes*s.fanOut() || res.Millis.P50 <= 0 || res.Server == nil {
				t.Errorf("%s: got %+v", s.name, res)
				continue
			}
			if want := int(s.rate*0.2 + 0.5); res.Writes != want {
				t.Errorf("%s: %d writes, want %d", s.name, res.Writes, want)
			}
		}
	}
	plain, zipped := findResult(got.Servers[0].Results, "all-h2-20"), findResult(got.Servers[0].Results, "gzip")
	if plain.BytesPerEvent < 1900 || zipped.BytesPerEvent > plain.BytesPerEvent/2 {
		t.Errorf("%g bytes an event, with gzip %g", plain.BytesPerEvent, zipped.BytesPerEvent)
	}
	if floor := got.Floor[0].BytesPerEvent; floor < plain.BytesPerEvent-20 || floor > plain.BytesPerEvent+20 {
		t.Errorf("the floor's events have %g bytes, the server's %g", floor, plain.BytesPerEvent)
	}
	if len(got.Servers[0].Informers) != len(informerWorkloads()) || len(got.Servers[1].Informers) != 1 {
		t.Fatalf("got %+v", got.Servers)
	}
	for _, in := range [][]informersResult{got.Servers[0].Informers, got.FloorInformers} {
		if in[0].Objects != 20 || in[0].BodyBytes != got.FloorInformers[0].BodyBytes || in[0].PeakBytes <= 0 {
			t.Errorf("got %+v", in[0])
		}
	}

	report := filepath.Join(dir, "report.json")
	if err := os.WriteFile(report, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err = run(t, "watch", "--from="+report, "-o=markdown")
	if err != nil || !strings.Contains(out, "| all-h2-20 | 4 | 1 |") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

func TestTurns(t *testing.T) {
	out, progress, err := run(t, quickArgs("--compare", "--turns=3", "--workloads=all-h2-20,floor-h2-20", "-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"millrace", "kubernetes", "the floor"} {
		if n := strings.Count(progress, "measuring "+server+"\n"); n != 3 {
			t.Errorf("%s was measured %d times:\n%s", server, n, progress)
		}
	}
	if got.Plan.Turns != 3 || len(got.Floor) != 1 || len(got.Servers[0].Results) != 1 || len(got.Servers[1].Results) != 1 {
		t.Errorf("got %+v", got)
	}
}

// TestMedians computes medians of a workload that is measured in all turns, and of one that fails in
// one turn.
func TestMedians(t *testing.T) {
	turn := func(figure float64, failure string) turnResults {
		res := result{Workload: "x", Writes: 7, OpenSeconds: figure, WritesPerSec: figure, BytesPerEvent: figure,
			Millis: render.Latencies{P50: figure, P90: figure, P99: figure, Max: figure}, ClientCPUMicros: figure,
			Server: &serverCost{OpenMicros: figure, CPUSeconds: figure, WriteMicros: figure, EventMicros: figure, AloneMicros: figure,
				NetMicros: figure, RSSBytes: int64(figure), PeakBytes: int64(figure)}}
		return turnResults{floor: []result{res, {Workload: "y", Error: failure}}}
	}
	floor := func(t turnResults) []result { return t.floor }
	for _, c := range []struct {
		turns []turnResults
		want  turnResults
	}{
		{[]turnResults{turn(5, "")}, turn(5, "")},
		{[]turnResults{turn(9, ""), turn(4, "it broke"), turn(5, "")}, turn(5, "it broke")},
		{[]turnResults{turn(9, "it broke"), turn(2, ""), turn(1, ""), turn(4, "")}, turn(3, "it broke")},
	} {
		if got := medians(c.turns, floor); !reflect.DeepEqual(got, c.want.floor) {
			t.Errorf("got %+v, want %+v", got, c.want.floor)
		}
	}
	if got := medians([]turnResults{{}, {}}, floor); len(got) != 0 {
		t.Errorf("got %+v of no workloads", got)
	}
}

func TestFloorAlone(t *testing.T) {
	out, progress, err := run(t, quickArgs("--compare", "--workloads=floor-h2-20,floor-tls")...)
	if err != nil || !strings.Contains(out, "floor-h2-20") || !strings.Contains(out, "floor-tls") {
		t.Errorf("%v\n%s\n%s", err, out, progress)
	}
}

func TestServerThatRunsKeepsNoConfigMaps(t *testing.T) {
	api := &benchtest.API{Pods: 10}
	_, cfg := benchtest.StartTLS(t, api, true)
	path := filepath.Join(t.TempDir(), "k")
	if err := benchtest.WriteKubeconfig(path, cfg.Host, cfg.CAData); err != nil {
		t.Fatal(err)
	}
	out, progress, err := run(t, quickArgs("--at="+path, "--workloads=all-h2-20,names-1000,nodes-1000", "-o=wide")...)
	if err != nil || !strings.Contains(out, "names-1000") || !strings.Contains(out, "nodes-1000") {
		t.Errorf("got %v:\n%s\n%s", err, out, progress)
	}
	if n := api.Watches.ConfigMaps(); n != 0 {
		t.Errorf("left %d config maps", n)
	}
}

// TestFaultyServersFail measures servers that do not deliver each event exactly once.
func TestFaultyServersFail(t *testing.T) {
	for message, api := range map[string]*benchtest.API{
		"some arrived twice or without their stamp": {Watches: benchtest.Watches{WithoutStamps: true}},
		"some arrived twice":                        {Watches: benchtest.Watches{ExtraCopies: 1}},
		"the server ended the watch":                {Watches: benchtest.Watches{EndAfterEvent: true}},
	} {
		r := newTestRunner(t, api)
		spec := eventWorkload{name: "x", kind: watchAll, watchers: 3, conns: 2, rate: 100}
		if _, err := r.run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("got %v, want %q", err, message)
		}
	}
	unsharded := newTestRunner(t, &benchtest.API{Watches: benchtest.Watches{IgnoresShards: true}})
	unsharded.pods = make([]testbed.PodSample, 1)
	unsharded.pods[0].Metadata.Namespace, unsharded.pods[0].Metadata.Name = "default", "pod-0"
	if _, err := unsharded.run(t.Context(), eventWorkload{kind: watchShards, watchers: 2, pods: 1, conns: 2, rate: 100}); err == nil || !strings.Contains(err.Error(), "ignores shardSelector") {
		t.Errorf("got %v", err)
	}
	r := newTestRunner(t, &benchtest.API{Pods: 1})
	if _, err := r.run(t.Context(), eventWorkload{kind: watchNodes, watchers: 2, rate: 1}); err == nil || !strings.Contains(err.Error(), "on 0 only") {
		t.Errorf("got %v", err)
	}
}

func TestAwaitEvents(t *testing.T) {
	c := newWatcherGroup(t.Context(), nil, streamForm{})
	defer c.close()
	c.arrivedEvents.Store(2)
	if err := c.await(2, time.Minute); err != nil {
		t.Error(err)
	}
	if err := c.await(3, 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), "2 of 3 events arrived within 10ms") {
		t.Errorf("got %v", err)
	}
}

// TestStalledWatcherBlocksServer writes to a stalled watcher until writes block.
func TestStalledWatcherBlocksServer(t *testing.T) {
	var written atomic.Int64
	ended := make(chan struct{})
	_, cfg := benchtest.StartTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for block := make([]byte, 1<<10); r.Context().Err() == nil; {
			n, _ := w.Write(block)
			w.(http.Flusher).Flush()
			written.Add(int64(n))
		}
	}), true)
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg})
	if err != nil {
		t.Fatal(err)
	}
	c := newWatcherGroup(t.Context(), target, streamForm{})
	if err := c.openStalled("/"); err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for last := int64(-1); last != written.Load(); <-ticker.C {
		if last = written.Load(); last > 64<<10 {
			t.Errorf("%d bytes went through", last)
			break
		}
	}
	c.close()
	<-ended
}

func newTestRunner(t *testing.T, api http.Handler) *runner {
	t.Helper()
	_, cfg := benchtest.StartTLS(t, api, true)
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg})
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRunner(t.Context(), target, runner{meter: testbed.NewMeter(os.Getpid()), progress: testbed.NewProgress(io.Discard),
		plan: plan{Duration: 50 * time.Millisecond, Warmup: 10 * time.Millisecond, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

func TestInformers(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		_, cfg := benchtest.StartTLS(t, &benchtest.API{Secrets: 9, Watches: benchtest.Watches{LossyWatchLists: lossy}}, true)
		target, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg})
		if err != nil {
			t.Fatal(err)
		}
		r := &informerRun{target: target, meter: testbed.NewMeter(os.Getpid()), uri: informersURI, progress: testbed.NewProgress(io.Discard)}
		res, err := r.measureInformers(t.Context(), informerWorkload{name: "x", informers: 5}, plan{Timeout: time.Minute})
		if lossy {
			if err == nil || !strings.Contains(err.Error(), "objects, the first") {
				t.Errorf("got %v", err)
			}
			continue
		}
		if err != nil || res.Informers != 5 || res.Slow != 1 || res.Objects != 9 || res.BodyBytes < 9*12000 {
			t.Errorf("got %+v, %v", res, err)
		}
		r.uri = "/version"
		if _, err := r.runInformers(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "without its bookmark") {
			t.Errorf("got %v", err)
		}
	}
}

func TestChoose(t *testing.T) {
	names := func(c choice) (all []string) {
		for _, specs := range [][]eventWorkload{c.events, c.floor} {
			for _, s := range specs {
				all = append(all, s.name)
			}
		}
		for _, s := range c.informers {
			all = append(all, s.name)
		}
		return all
	}
	for _, c := range []struct{ asked, want []string }{
		{[]string{"gzip"}, []string{"all-h2-20", "gzip"}},
		{[]string{"stalled", "all-h1"}, []string{"all-h2-1000", "stalled", "all-h1"}},
		{[]string{"names"}, []string{"names-1000", "names-4000", "names-8000"}},
		{[]string{"shards-64"}, []string{"shards-1", "shards-64"}},
		{[]string{"shards"}, []string{"shards-1", "shards-16", "shards-64"}},
		{[]string{"one"}, []string{"one-json", "one-protobuf"}},
		{[]string{"floor"}, []string{"floor-h2-20", "floor-h2-1000", "floor-h1", "floor-tls"}},
		{[]string{"watchlist"}, []string{"watchlist-16", "watchlist-64", "watchlist-128", "watchlist-512"}},
		{[]string{"watchlist-512", "nodes-1000"}, []string{"nodes-1000", "watchlist-512"}},
	} {
		got, err := choose(c.asked)
		if err != nil || !slices.Equal(names(got), c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.asked, names(got), err, c.want)
		}
	}
	byDefault, err := choose(nil)
	const others = 5 // shards and one
	if err != nil || len(names(byDefault)) != len(eventWorkloads())-others+1 {
		t.Errorf("default is %q, %v", names(byDefault), err)
	}
	out, _, err := run(t, "watch", "--workloads=help")
	if err != nil || strings.Count(out, "\n") != len(eventWorkloads())+len(informerWorkloads())+3 {
		t.Errorf("got %v:\n%s", err, out)
	}
}

func TestScaled(t *testing.T) {
	for _, c := range []struct {
		spec            eventWorkload
		by              float64
		watchers, conns int
	}{
		{eventWorkload{watchers: 1000, conns: 20}, 1, 1000, 20},
		{eventWorkload{watchers: 1000, conns: 20}, 0.5, 500, 10},
		{eventWorkload{watchers: 1000, conns: 20}, 0.001, 2, 1},
		{eventWorkload{watchers: 4000}, 1, 4000, 40},
		{eventWorkload{watchers: 4050}, 1, 4050, 41},
		{eventWorkload{kind: watchShards, watchers: 16, pods: 1000}, 0.1, 16, 16},
		{eventWorkload{kind: watchPods, watchers: 1, pods: 1000}, 0.1, 1, 1},
	} {
		if got := c.spec.scale(c.by); got.watchers != c.watchers || got.conns != c.conns {
			t.Errorf("%+v by %g: %d watchers, %d connections", c.spec, c.by, got.watchers, got.conns)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"-o svg", "choose one of table, wide, json, markdown"},
		{"--workloads=pods", `no workload "pods"`},
		{"--duration=0s", "--duration=0s"},
		{"--scale=0", "--scale=0"},
		{"--secrets=0 --compare", "--secrets=0"},
		{"--workloads=floor", "choose --compare"},
		{"--at=/nowhere", "/nowhere"},
		{"--turns=0 --compare", "--turns=0"},
		{"--compare --read-paths=etcd", "choose among millrace, millrace-encoded, kubernetes, each once"},
		{"--compare --secret-size=large", "--secret-size=large"},
		{"--compare --pod-size=large", "--pod-size=large"},
		{"--compare --scale=100 --workloads=all-h2-1000", "raise ulimit -n"},
		{"--from=/nowhere", "read report"},
	} {
		_, _, err := run(t, append([]string{"watch"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
	}
}
