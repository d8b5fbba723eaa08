package slo_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/wire/entry"
)

// fixture is accounts with a fake clock, and their log.
type fixture struct {
	*slo.Watches
	clock *testingclock.FakeClock
	log   bytes.Buffer
}

func newSet(objectives slo.Objectives) *fixture {
	x := &fixture{clock: testingclock.NewFakeClock(time.Now())}
	x.Watches = slo.NewWatches(slo.Config{Objectives: objectives, Clock: x.clock, Logger: slog.New(slog.NewTextHandler(&x.log, nil))})
	return x
}

// fakeStream is the backlog, history and transport of a watch, all set by the test.
type fakeStream struct {
	events        int64
	oldest        time.Time
	window, write time.Time
	returned      uint64
}

// Behind returns the events that were not sent, 100 bytes each.
func (a *fakeStream) Behind(sent uint64) (events, bytes int64, oldest time.Time) {
	left := max(0, a.events-int64(sent))
	return left, left * 100, a.oldest
}
func (a *fakeStream) Size() (events int, bytes int64, oldest time.Time) {
	return int(a.events), a.events * 100, a.oldest
}
func (a *fakeStream) Waits() (window, write time.Time)   { return a.window, a.write }
func (a *fakeStream) WithLock(use func(returned uint64)) { use(a.returned) }

// testWatch is a watch with its SendAccount.
type testWatch struct {
	*slo.SendAccount
	watch *slo.Watch
}

// write sends queued bytes in one write that returns at once.
func (w *testWatch) write(write slo.Write, bytes int, shut *slo.WindowStall) {
	w.Placed(&write, bytes, shut)
	write.Written()
}

// follow ends the initial events of a watch.
func follow(w *slo.Watch) *testWatch {
	by := new(slo.SendAccount)
	w.SetSendAccount(by)
	return &testWatch{by, w}
}

func (x *fixture) open(resource, user string, a *fakeStream) *testWatch {
	return follow(x.Open(slo.WatchInfo{
		Resource: resource, Client: serverreport.NewClient(user, "kubelet/v1.36.3 (linux/amd64)"), Selection: "everything", Encoding: "json",
		Protocol: "HTTP/2.0", Backlog: a, History: a, Transport: a,
	}))
}

// stageTimes are the times that an event spent in each stage.
type stageTimes struct{ decode, dispatch, encode, client, connection time.Duration }

// deliver delivers an event whose span ends now and has the given stages.
func (x *fixture) deliver(w *testWatch, t stageTimes, bytes int) {
	end := x.clock.Now()
	began := end.Add(-t.connection)
	encoded := began
	taken := encoded.Add(-t.encode)
	cached := taken.Add(-t.dispatch - t.client)
	var shut *slo.WindowStall
	if t.client > 0 {
		shut = &slo.WindowStall{Since: cached}
		shut.For = time.Duration(float64(t.client) / float64(t.dispatch+t.client) * float64(end.Sub(cached)))
	}
	w.Queue(&entry.Arrival{Entered: cached.Add(-t.decode), Cached: cached}, 1, int64(bytes))
	w.write(slo.Write{FillBegan: taken, Began: began, Ended: end, BusySince: taken}, bytes, shut)
}

const ms = time.Millisecond

func causes(r serverreport.SLOReport) (all []serverreport.Cause) {
	for _, f := range r.Causes {
		all = append(all, f.Cause)
	}
	return all
}

func TestCauseIsWhereTheTimeWent(t *testing.T) {
	for cause, late := range map[serverreport.Cause]stageTimes{
		serverreport.Cause(serverreport.StageDecode):     {decode: 3 * time.Second, dispatch: ms},
		serverreport.Cause(serverreport.StageDispatch):   {decode: ms, dispatch: 2 * time.Second, encode: ms},
		serverreport.Cause(serverreport.StageEncode):     {encode: 2 * time.Second, connection: ms},
		serverreport.Cause(serverreport.StageClient):     {dispatch: ms, client: 4 * time.Second, connection: ms},
		serverreport.Cause(serverreport.StageConnection): {dispatch: ms, connection: 2 * time.Second},
	} {
		t.Run(string(cause), func(t *testing.T) {
			x := newSet(slo.Objectives{})
			w, other := x.open("pods", "a", new(fakeStream)), x.open("nodes", "b", new(fakeStream))
			for i := range 500 {
				x.clock.Step(10 * ms)
				x.deliver(other, stageTimes{decode: ms, connection: ms}, 100)
				if i < 480 {
					x.deliver(w, stageTimes{ms, ms, ms, 0, ms}, 100)
				} else {
					x.clock.Step(5 * time.Second / 20)
					x.deliver(w, late, 100)
				}
			}
			r := x.SLO()
			if r.Met || len(r.Resources) != 2 || r.Resources[0].Resource != "pods" || r.Resources[1].Cause == "" {
				t.Fatalf("report %+v", r)
			}
			pods := r.Resources[0]
			if pods.Met || pods.Cause != cause || pods.Late != 20 || pods.Spans.Count != 500 || !r.Resources[1].Met {
				t.Errorf("pods are %+v", pods)
			}
			var sum, share float64
			for _, s := range pods.Stages {
				sum += s.Share
				if s.Stage == serverreport.Stage(cause) {
					share = s.Share
				}
			}
			if share < 0.9 || math.Abs(sum-1) > 1e-9 {
				t.Errorf("shares %+v", pods.Stages)
			}
			if pods.Burn.FiveMinutes < 3.9 || pods.Burn.FiveMinutes > 4.1 {
				t.Errorf("burn %+v", pods.Burn)
			}
			if got := causes(r); !slices.Contains(got, cause) {
				t.Errorf("causes %v", r.Causes)
			}
			byClient := slices.ContainsFunc(r.Causes, func(f serverreport.Finding) bool { return f.Client == "kubelet (a)" && f.Cause == cause })
			if held := cause == serverreport.Cause(serverreport.StageClient) || cause == serverreport.Cause(serverreport.StageConnection); byClient != held {
				t.Errorf("client is named: %v; causes %+v", byClient, r.Causes)
			}
			if ours := cause != serverreport.Cause(serverreport.StageClient); ours != (r.Causes[0].Severity == "critical") {
				t.Errorf("causes %+v", r.Causes)
			}
			x.clock.Step(2 * time.Minute)
			if r := x.SLO(); !r.Met || len(r.Resources) > 0 || len(r.Causes) > 0 || r.All.Events != 1000 {
				t.Errorf("two minutes later: %+v", r)
			}
		})
	}
}

func TestLargeEventsAreACause(t *testing.T) {
	x := newSet(slo.Objectives{})
	w := x.open("secrets", "a", new(fakeStream))
	x.clock.Step(10 * time.Second)
	for range 50 {
		x.deliver(w, stageTimes{connection: ms}, 1000)
		x.deliver(w, stageTimes{connection: 2 * time.Second}, 1<<20)
	}
	if r := x.SLO(); r.Resources[0].Cause != serverreport.CauseSize || r.Causes[0].Cause != serverreport.CauseSize {
		t.Errorf("report %+v", r)
	}
}

func TestObjectiveOfAResource(t *testing.T) {
	objectives, err := slo.ParseObjectives("2s, pods=5ms,events=10s")
	if err != nil {
		t.Fatal(err)
	}
	x := newSet(objectives)
	for _, resource := range []string{"pods", "events", "nodes"} {
		w := x.open(resource, "a", new(fakeStream))
		x.clock.Step(10 * time.Second)
		x.deliver(w, stageTimes{decode: time.Second}, 10)
	}
	for _, r := range x.SLO().Resources {
		if want := map[string]float64{"pods": 0.005, "events": 10, "nodes": 2}[r.Resource]; r.ObjectiveSeconds != want || r.Met != (want > 1) {
			t.Errorf("%+v, want an objective of %v", r, want)
		}
	}
	for _, wrong := range []string{"", "fast", "pods=", "=1s", "pods=0s", "-1s"} {
		if _, err := slo.ParseObjectives(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestEventsFromBeforeTheWatchHaveNoSpan(t *testing.T) {
	x := newSet(slo.Objectives{})
	before := x.clock.Now()
	x.clock.Step(time.Minute)
	w := x.open("pods", "a", new(fakeStream))
	w.watch.AddWithoutSpan(300, 3)
	w.Queue(&entry.Arrival{Entered: before, Cached: before}, 2, 20)
	w.Queue(nil, 1, 10)
	now := x.clock.Now()
	w.write(slo.Write{FillBegan: now, Began: now, Ended: now}, 30, nil)
	if r := x.SLO(); r.All.Spans.Count != 0 || r.All.Events != 6 || r.All.Bytes != 330 {
		t.Errorf("the totals are %+v", r.All)
	}
}

// TestPartsOfAnEvent sends events in writes that end in the middle of events.
func TestPartsOfAnEvent(t *testing.T) {
	x := newSet(slo.Objectives{})
	w := x.open("pods", "a", &fakeStream{events: 3})
	var arrivals []*entry.Arrival
	for range 3 {
		x.clock.Step(time.Second)
		arrivals = append(arrivals, &entry.Arrival{Entered: x.clock.Now(), Cached: x.clock.Now()})
		w.Queue(arrivals[len(arrivals)-1], 1, 100)
	}
	sent := func(bytes int) uint64 {
		x.clock.Step(100 * ms)
		now := x.clock.Now()
		w.write(slo.Write{FillBegan: now, Began: now, Ended: now}, bytes, nil)
		return x.SLO().All.Spans.Count
	}
	for _, step := range []struct{ bytes, done int }{{50, 0}, {60, 1}, {80, 1}, {10, 2}, {99, 2}} {
		if got := sent(step.bytes); got != uint64(step.done) {
			t.Errorf("after %d more bytes %d events are delivered, want %d", step.bytes, got, step.done)
		}
	}
	if b := x.Watchers().Behind; len(b) != 1 || b[0].BehindEvents != 1 || b[0].Events != 2 {
		t.Errorf("behind: %+v", b)
	}
	if got := sent(1); got != 3 {
		t.Errorf("%d events are delivered", got)
	}
	if r := x.SLO(); math.Abs(r.All.Spans.Max-2.2) > 0.001 || len(x.Watchers().Behind) > 0 || r.All.Bytes != 300 {
		t.Errorf("report %+v", r.All)
	}
}

// TestStuckWatches makes a watch wait for its client, its connection, and the server.
func TestStuckWatches(t *testing.T) {
	x := newSet(slo.Objectives{})
	stuck := &fakeStream{events: 7}
	w := x.open("pods", "slow", stuck)
	x.open("pods", "fine", new(fakeStream))
	stuck.oldest, stuck.window = x.clock.Now(), x.clock.Now()
	x.clock.Step(30 * time.Second)
	r, watchers := x.SLO(), x.Watchers()
	if b := watchers.Behind; len(b) != 1 || b[0].BehindEvents != 7 || b[0].BehindBytes != 700 || b[0].BehindSeconds != 30 || b[0].State != "client" {
		t.Errorf("behind %+v", b)
	}
	if !r.Met || len(r.Causes) != 1 || r.Causes[0].Client != "kubelet (slow)" || r.Causes[0].Cause != serverreport.Cause(serverreport.StageClient) {
		t.Errorf("met %v, causes %+v", r.Met, r.Causes)
	}
	stuck.window, stuck.write = time.Time{}, stuck.window
	if r := x.SLO(); r.Causes[0].Cause != serverreport.Cause(serverreport.StageConnection) || !r.Met {
		t.Errorf("causes %+v", r.Causes)
	}
	stuck.write = time.Time{}
	if r := x.SLO(); r.Met || r.Causes[0].Cause != serverreport.Cause(serverreport.StageDispatch) || r.Causes[0].Severity != "critical" {
		t.Errorf("causes %+v", r.Causes)
	}
	w.watch.Expired()
	w.watch.Close()
	if r := x.Watchers(); r.Watches != 1 || r.Expired != 1 || r.Waiting != 0 || !strings.Contains(x.log.String(), "list again") {
		t.Errorf("watchers %+v, log %s", r, x.log.String())
	}
}

// TestLateFeed has etcd answer late, break, and come back.
func TestLateFeed(t *testing.T) {
	x := newSet(slo.Objectives{})
	f := x.AddFeed("/registry/", []string{"http://192.0.2.1:2379"})
	for range 60 {
		f.ProgressRequested(x.clock.Now())
		x.clock.Step(2 * ms)
		f.ProgressReceived(x.clock.Now())
		x.clock.Step(998 * ms)
	}
	if r, told := x.SLO(), x.Feed().Feeds[0]; !r.Met || told.LateSeconds != 0 || math.Abs(told.Delivery.P99-0.002) > 0.0001 {
		t.Errorf("causes %+v, feed %+v", r.Causes, told)
	}
	f.ProgressRequested(x.clock.Now())
	x.clock.Step(3 * time.Second)
	if r, told := x.SLO(), x.Feed().Feeds[0]; r.Met || causes(r)[0] != serverreport.Cause(serverreport.StageEtcd) || told.LateSeconds != 3 || told.Delivery.Max != 3 {
		t.Errorf("causes %+v, feed %+v", r.Causes, told)
	}
	f.WatchBroke(errors.New("no route"))
	x.clock.Step(time.Second)
	if told := x.Feed().Feeds[0]; told.LateSeconds != 4 || told.Error != "no route" || told.Restarts != 1 {
		t.Errorf("feed %+v", told)
	}
	f.WatchEstablished()
	if r, told := x.SLO(), x.Feed().Feeds[0]; told.LateSeconds != 0 || told.Error != "" || r.Met || causes(r)[0] != serverreport.Cause(serverreport.StageEtcd) || r.Causes[0].Severity != "warning" {
		t.Errorf("feed %+v, causes %+v", told, r.Causes)
	}
}

// TestLongAnswerCountsMore has one answer of ten seconds among 500 short ones. It counts
// as the ten answers that would have been requested meanwhile.
func TestLongAnswerCountsMore(t *testing.T) {
	x := newSet(slo.Objectives{})
	f := x.AddFeed("/registry/", []string{"http://192.0.2.1:2379"})
	answer := func(after time.Duration) {
		f.ProgressRequested(x.clock.Now())
		x.clock.Step(after)
		f.ProgressReceived(x.clock.Now())
	}
	for range 500 { // more than one request a second would make in a minute
		answer(ms)
	}
	answer(10 * time.Second)
	if q := x.Feed().Feeds[0].Delivery; q.Count != 510 || math.Abs(q.P99-5) > 0.1 || q.Max != 10 {
		t.Errorf("answers %+v", q)
	}
	if r := x.SLO(); r.Met || len(r.Causes) != 1 || r.Causes[0].Cause != serverreport.Cause(serverreport.StageEtcd) || r.Causes[0].Severity != "warning" {
		t.Errorf("met %v, causes %+v", r.Met, r.Causes)
	}
	answer(time.Hour)
	if q := x.Feed().Feeds[0].Delivery; q.Count > 600 {
		t.Errorf("answers %+v", q)
	}
}

func TestProbe(t *testing.T) {
	x := newSet(slo.Objectives{})
	if x.SLO().Probe != nil {
		t.Error("a probe is reported before its first write")
	}
	began := x.clock.Now()
	x.clock.Step(30 * ms)
	x.ProbeWrote(10, began, x.clock.Now())
	x.clock.Step(20 * ms)
	x.ProbeSaw(10, x.clock.Now())
	began = x.clock.Now()
	x.ProbeSaw(11, x.clock.Now()) // the event comes before the answer to its write
	x.clock.Step(10 * ms)
	x.ProbeWrote(11, began, x.clock.Now())
	p := x.SLO().Probe
	if p.Commit.Count != 2 || math.Abs(p.Commit.Max-0.02) > 1e-9 || p.Whole.Count != 2 || math.Abs(p.Whole.Max-0.05) > 1e-9 || p.PendingSeconds != 0 {
		t.Errorf("probe %+v", p)
	}
	x.ProbeWrote(12, x.clock.Now(), x.clock.Now())
	x.clock.Step(15 * time.Second)
	if r := x.SLO(); r.Probe.PendingSeconds != 15 || r.Met || causes(r)[0] != serverreport.CauseProbe {
		t.Errorf("probe %+v, causes %+v", r.Probe, r.Causes)
	}
	x.ProbeWatchFailed(errors.New("no watch"))
	x.ProbeWrote(13, x.clock.Now(), x.clock.Now())
	if p := x.SLO().Probe; p.Error != "no watch" {
		t.Errorf("a write hides that the watch failed: %+v", p)
	}
	x.ProbeWriteFailed(errors.New("no write"))
	if p := x.SLO().Probe; p.Error != "no write" {
		t.Errorf("probe %+v", p)
	}
	x.ProbeWrote(14, x.clock.Now(), x.clock.Now())
	x.ProbeSaw(14, x.clock.Now())
	if p := x.SLO().Probe; p.Error != "" {
		t.Errorf("all is well, and the probe says %q", p.Error)
	}
}

// TestSumsStay has more clients and selections than accounts. No event may be lost.
func TestSumsStay(t *testing.T) {
	x := newSet(slo.Objectives{})
	var want uint64
	for i := range 1500 {
		w := follow(x.Open(slo.WatchInfo{Resource: "pods", Client: serverreport.NewClient(strings.Repeat("x", i%1200+1)[:1]+string(rune(i%1200+0x4e00)), "a/1"), Selection: string(rune(i + 0x4e00)), Backlog: new(fakeStream), Transport: new(fakeStream)}))
		x.clock.Step(ms)
		x.deliver(w, stageTimes{}, 10)
		want++
		if i%2 == 0 {
			w.watch.Close()
		}
		if i == 1100 {
			x.clock.Step(2 * time.Minute)
		}
	}
	families := gather(t, slo.NewCollector(x.Watches))
	if got := families["millrace_watch_delivered_events_total"]; got != float64(want) {
		t.Errorf("%v events delivered, want %d", got, want)
	}
	if got := families["millrace_watch_span_seconds"]; got != float64(want) {
		t.Errorf("%v spans, want %d", got, want)
	}
	if got := families["apiserver_watch_events_dispatch_duration_seconds"]; got != 3*float64(want) {
		t.Errorf("%v times of stages, want %d", got, 3*want)
	}
	if r := x.Watchers(); r.Watches != 750 || r.Events != want || r.Bytes != 10*want {
		t.Errorf("watchers %+v", r)
	}
}

// TestForgetWatched forgets two resources. The one without an open watch is dropped, and
// begins at zero when it is watched again. Clients keep their sums, and the sum of all
// resources does not fall.
func TestForgetWatched(t *testing.T) {
	x := newSet(slo.Objectives{})
	watches := map[string]*testWatch{}
	for _, resource := range []string{"pods", "ended.example", "watched.example"} {
		watches[resource] = x.open(resource, "alice", &fakeStream{events: 1})
		x.deliver(watches[resource], stageTimes{}, 10)
	}
	watches["ended.example"].watch.Close()
	watches["pods"].watch.Close()
	x.Forget(func(resource string) bool { return resource != "pods" })
	told := func() (resources []string) {
		for _, r := range x.SLO().Resources {
			resources = append(resources, r.Resource)
		}
		slices.Sort(resources)
		return resources
	}
	if got, want := told(), []string{"pods", "watched.example"}; !slices.Equal(got, want) {
		t.Errorf("resources %v, want %v", got, want)
	}
	for _, s := range x.SLO().Subscriptions {
		if s.Resource == "ended.example" {
			t.Errorf("subscription %+v", s)
		}
	}
	if r := x.Watchers(); r.Events != 3 || r.Bytes != 30 {
		t.Errorf("%d events of %d bytes, want 3 of 30", r.Events, r.Bytes)
	}
	if events, bytes := x.DeliveredTotals(); events != 3 || bytes != 30 {
		t.Errorf("%d events of %d bytes were delivered, want 3 of 30", events, bytes)
	}
	if c := x.SLO().Clients; len(c) != 1 || c[0].Events != 3 {
		t.Errorf("clients %+v", c)
	}
	x.deliver(watches["watched.example"], stageTimes{}, 10)
	x.deliver(x.open("ended.example", "alice", &fakeStream{events: 1}), stageTimes{}, 10)
	if r := x.Watchers(); r.Events != 5 {
		t.Errorf("%d events, want 5", r.Events)
	}
}

// gather returns the sums of metrics over their labels.
func gather(t *testing.T, c metrics.StableCollector) map[string]float64 {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	if err := registry.CustomRegister(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			sums[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sums
}

// TestMemory bounds the memory of 5,000 watches of 1,000 clients. Their spans differ as much
// as on a busy server.
func TestMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	x := newSet(slo.Objectives{})
	var watches []*testWatch
	for i := range 5000 {
		watches = append(watches, openWatch(x.Watches, i, 1000, 5000))
	}
	for round := range 130 {
		x.clock.Step(time.Second)
		for i, w := range watches {
			d := time.Duration(1+(i*7919+round*104729)%200) * ms / 4
			x.deliver(w, stageTimes{dispatch: d, connection: ms / 10}, 400)
		}
	}
	if took := heap() - before; took > 12<<20 {
		t.Errorf("accounts of 5,000 watches take %d KiB", took>>10)
	} else {
		t.Logf("accounts of 5,000 watches take %d KiB", took>>10)
	}
	began := time.Now()
	r, all := x.SLO(), x.Watchers()
	t.Logf("reports took %v", time.Since(began))
	if r.All.Events != 130*5000 || all.Clients != 1000 || all.Subscriptions != 5000 || len(r.Clients) != 50 {
		t.Errorf("the totals are %+v", r.All)
	}
	runtime.KeepAlive(watches)
}

// TestReportWhileOpening makes reports while watches of the same resource are opened. It
// is for the race detector.
func TestReportWhileOpening(t *testing.T) {
	x := newSet(slo.Objectives{})
	x.open("pods", "alice", new(fakeStream))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			x.open("pods", "bob", new(fakeStream))
		}
	}()
	for range 50 {
		x.Watchers()
	}
	<-done
	if r := x.Watchers(); r.Watches != 201 {
		t.Errorf("%d watches, want 201", r.Watches)
	}
}

// TestBytesWithoutAnEvent sends bookmarks: alone, in parts, and in front of an event.
func TestBytesWithoutAnEvent(t *testing.T) {
	x := newSet(slo.Objectives{})
	w := x.open("pods", "a", &fakeStream{events: 2})
	want := func(step string, events, bytes uint64) {
		t.Helper()
		if r := x.SLO(); r.All.Events != events || r.All.Spans.Count != events || r.All.Bytes != bytes {
			t.Errorf("%s: the totals are %+v, want %d events of %d bytes", step, r.All, events, bytes)
		}
	}
	event := func() {
		x.clock.Step(time.Second)
		w.Queue(&entry.Arrival{Entered: x.clock.Now(), Cached: x.clock.Now()}, 1, 100)
	}
	write := func(bytes int) {
		now := x.clock.Now()
		w.write(slo.Write{FillBegan: now, Began: now, Ended: now}, bytes, nil)
	}
	w.QueueBytes(200)
	write(200)
	want("whole bookmark", 0, 200)
	w.QueueBytes(200)
	write(150)
	want("part of a bookmark", 0, 350)
	event()
	write(150)
	want("rest, and an event", 1, 500)
	event()
	w.QueueBytes(200)
	write(100)
	write(200)
	want("event, then a bookmark", 2, 800)
}
