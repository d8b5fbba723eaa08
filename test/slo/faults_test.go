package slo

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/report"
	"github.com/millrace/millrace/test/harness"
)

const critical, warning = "critical", "warning"

// startEtcd starts an etcd of its own and waits until it has its ports.
func startEtcd(t *testing.T) *harness.Etcd {
	t.Helper()
	etcd := harness.StartEtcd(t)
	check(t, harness.Until(patience, func() error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(etcd.Endpoint, "http://"))
		if err == nil {
			err = conn.Close()
		}
		return err
	}))
	return etcd
}

// TestPausedEtcd stops etcd under watches. What is told goes back to a warning when
// it runs again, and to nothing a minute later.
func TestPausedEtcd(t *testing.T) {
	faults(t)
	etcd := startEtcd(t)
	d := newDrill(t, "--etcd-servers="+etcd.Endpoint)
	late := fmt.Sprintf("millrace_feed_late_seconds{etcd=%q}", etcd.Endpoint)
	client := d.http2(1 << 20)
	for i := range 5 {
		d.reading(client, fmt.Sprint("reader-", i))
	}
	d.write("before", 20, 10)
	d.delivered(100)
	d.until(func(r *readings) error {
		if value, told := r.metrics[late]; !r.slo.Met || !told || value != 0 {
			return fmt.Errorf("etcd is late at first, by %v: %+v", value, r.slo)
		}
		return nil
	})

	etcd.Signal(syscall.SIGSTOP)
	f := fault{cause: report.Cause(report.StageEtcd), severity: critical, words: "etcd is slow"}
	r := d.named(f, func(r *readings) error {
		if r.metrics[late] < 1 || len(r.feed.Feeds) != 1 || r.feed.Feeds[0].Late < 1 {
			return fmt.Errorf("the feed is late by %v in the metrics: %+v", r.metrics[late], r.feed)
		}
		return nil
	})
	d.shown(f)
	if output := d.runTop("feed"); !strings.Contains(output, "! late ") {
		t.Errorf("top feed does not say that it is late:\n%s", output)
	}
	// The events that came were in time: their objective is met.
	for _, s := range r.slo.Resources {
		if !s.Met {
			t.Errorf("etcd's delay counts as the server's: %+v", s)
		}
	}

	etcd.Signal(syscall.SIGCONT)
	f.severity = warning
	d.named(f)
	d.shown(f)
	d.write("behind", 20, 10)
	d.delivered(200)
	d.until(func(r *readings) error {
		if value, told := r.metrics[late]; !told || value != 0 {
			return fmt.Errorf("the feed is still late by %v", value)
		}
		return nil
	})
	after(t, patience)
	d.until(func(r *readings) error {
		if name := fmt.Sprintf("millrace_slo_cause{cause=%q}", f.cause); !r.slo.Met || r.metrics[name] != 0 {
			return fmt.Errorf("not well again: %+v", r.slo)
		}
		return nil
	})
}

// TestStarvedServer gives the server a quarter of the time, as a limit of a cgroup
// does.
func TestStarvedServer(t *testing.T) {
	faults(t)
	etcd := startEtcd(t)
	d := newDrill(t, "--etcd-servers="+etcd.Endpoint, "--watch-slo=50ms")
	client := d.http2(1 << 20)
	for i := range 100 {
		d.reading(client, fmt.Sprint("reader-", i%10))
	}
	starved := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_ = syscall.Kill(d.PID(), syscall.SIGSTOP)
			after(t, 150*time.Millisecond)
			_ = syscall.Kill(d.PID(), syscall.SIGCONT)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-starved:
				return
			}
		}
	}()
	d.write("starved", 300, 1000)
	close(starved)
	<-done
	d.delivered(300 * 100)
	f := fault{cause: report.CauseCPU, severity: critical, resource: "configmaps", words: "not enough CPU"}
	r := d.named(f, missed(report.CauseCPU))
	d.shown(f)
	check(t, (&fault{cause: report.CauseCPU, severity: warning}).in(r.slo.Causes))
	if r.metrics[`millrace_process_delay_seconds{quantile="0.99"}`] < 0.1 {
		t.Errorf("timers fired in time: %+v", r.slo.Process)
	}
	for _, c := range r.slo.Causes {
		if c.Client != "" || c.Cause == report.Cause(report.StageEtcd) {
			t.Errorf("somebody else is blamed: %+v", c)
		}
	}
}

// TestClientThatDoesNotRead has a client leave its stream alone over HTTP/2 while
// others read theirs.
func TestClientThatDoesNotRead(t *testing.T) {
	faults(t)
	d := newDrill(t)
	others := d.http2(4 << 20)
	for range 3 {
		d.reading(others, "reader")
	}
	stuck := d.watch(d.http2(256<<10), "sleeper")
	d.write("large", 20, 100<<10)
	d.delivered(3 * 20)
	f := fault{cause: report.Cause(report.StageClient), severity: warning, resource: "configmaps", client: "sleeper (", met: true, words: "clients do not read"}
	d.named(f, behind("sleeper", "client"))
	d.shown(f)
	for _, args := range [][]string{{}, {"watchers"}} {
		if output := d.runTop(args...); !strings.Contains(output, "Furthest behind") || !strings.Contains(output, "sleeper") {
			t.Errorf("top %v does not show the watch:\n%s", args, output)
		}
	}

	// What it reads in the end counts as late, for it and for the resource.
	drain(stuck)
	d.delivered(4 * 20)
	f.resource, f.met = "", false
	r := d.named(f, missed(report.Cause(report.StageClient)), nobodyBehind, lateAlone("sleeper"))
	d.shown(f)
	for _, c := range r.slo.Causes {
		if c.Resource == "configmaps" && !strings.Contains(c.Message, "But for events that waited for slow clients the objective was met.") {
			t.Errorf("the server is blamed: %+v", c)
		}
	}
}

// TestThrottledConnection has a client of each protocol read through a network that
// takes little.
func TestThrottledConnection(t *testing.T) {
	faults(t)
	d := newDrill(t)
	others := d.http2(4 << 20)
	for range 3 {
		d.reading(others, "reader")
	}
	network, dial := d.startTrickle()
	// More than is written: a window that shuts would be the client's.
	d.reading(through(d.http2(64<<20), dial), "remote-2")
	d.reading(through(d.http1(), dial), "remote-1")
	d.write("medium", 200, 60<<10)
	d.delivered(3 * 200)
	for _, agent := range []string{"remote-1", "remote-2"} {
		f := fault{cause: report.Cause(report.StageConnection), severity: warning, resource: "configmaps", client: agent + " (", met: true, words: "network is full"}
		d.named(f, behind(agent, "connection"))
		d.shown(f)
	}

	close(network.open)
	d.delivered(5 * 200)
	for _, agent := range []string{"remote-1", "remote-2"} {
		d.named(fault{cause: report.Cause(report.StageConnection), severity: warning, client: agent + " (", words: "network is full"})
	}
	f := fault{cause: report.Cause(report.StageConnection), severity: critical, resource: "configmaps", words: "network is full"}
	d.named(f, missed(f.cause), nobodyBehind, lateAlone("remote-"))
	d.shown(f)
}

// TestLargeObjects sends many watches a few objects of a megabyte among many small
// ones.
func TestLargeObjects(t *testing.T) {
	faults(t)
	const clients, watches, small, large = 5, 8, 200, 6
	d := newDrill(t, "--watch-slo=configmaps=20ms")
	for i := range clients {
		client := d.http2(64 << 20)
		for range watches {
			d.reading(client, fmt.Sprint("reader-", i))
		}
	}
	d.write("small", small, 10)
	d.delivered(clients * watches * small)
	d.write("large", large, 1<<20-4<<10)
	d.delivered(clients * watches * (small + large))
	f := fault{cause: report.CauseSize, severity: critical, resource: "configmaps", words: "large objects"}
	d.named(f, missed(f.cause))
	d.shown(f)
}
