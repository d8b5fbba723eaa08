package slo

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/test/support/harness"
)

const critical, warning = "critical", "warning"

// startEtcd starts an etcd process and waits until it accepts connections.
func startEtcd(t *testing.T) *harness.Etcd {
	t.Helper()
	etcd := harness.StartEtcd(t)
	check(t, harness.Until(waitTimeout, func() error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(etcd.Endpoint, "http://"))
		if err == nil {
			err = conn.Close()
		}
		return err
	}))
	return etcd
}

// TestPausedEtcd pauses etcd while clients watch. The finding is critical during the
// pause, becomes a warning when etcd runs again, and ends a minute later.
func TestPausedEtcd(t *testing.T) {
	requireFaults(t)
	etcd := startEtcd(t)
	d := newTestServer(t, "--etcd-servers="+etcd.Endpoint)
	late := fmt.Sprintf("millrace_feed_late_seconds{etcd=%q}", etcd.Endpoint)
	client := d.http2(1 << 20)
	for i := range 5 {
		d.watchAndDrain(client, fmt.Sprint("reader-", i))
	}
	d.write("before", 20, 10)
	d.delivered(100)
	d.until(func(r *serverReports) error {
		if value, told := r.metrics[late]; !r.slo.Met || !told || value != 0 {
			return fmt.Errorf("etcd is late at first, by %v: %+v", value, r.slo)
		}
		return nil
	})

	etcd.Signal(syscall.SIGSTOP)
	f := expectedFault{cause: serverreport.Cause(serverreport.StageEtcd), severity: critical, topWords: "etcd is slow"}
	r := d.waitNamed(f, func(r *serverReports) error {
		if r.metrics[late] < 1 || len(r.feed.Feeds) != 1 || r.feed.Feeds[0].LateSeconds < 1 {
			return fmt.Errorf("the feed is late by %v in the metrics: %+v", r.metrics[late], r.feed)
		}
		return nil
	})
	d.checkTop(f)
	if output := d.runTop("feed"); !strings.Contains(output, "! late ") {
		t.Errorf("top feed does not say that it is late:\n%s", output)
	}
	// All delivered events were in time, so their objective is met.
	for _, s := range r.slo.Resources {
		if !s.Met {
			t.Errorf("etcd's delay counts as the server's: %+v", s)
		}
	}

	etcd.Signal(syscall.SIGCONT)
	f.severity = warning
	d.waitNamed(f)
	d.checkTop(f)
	d.write("behind", 20, 10)
	d.delivered(200)
	d.until(func(r *serverReports) error {
		if value, told := r.metrics[late]; !told || value != 0 {
			return fmt.Errorf("the feed is still late by %v", value)
		}
		return nil
	})
	waitFor(t, waitTimeout)
	d.until(func(r *serverReports) error {
		if name := fmt.Sprintf("millrace_slo_cause{cause=%q}", f.cause); !r.slo.Met || r.metrics[name] != 0 {
			return fmt.Errorf("the report is not healthy again: %+v", r.slo)
		}
		return nil
	})
}

// TestStarvedServer lets the server run only a tenth of the time, as the CPU limit
// of a cgroup does. Only events that a pause interrupts are late, so it writes until
// enough of them are.
func TestStarvedServer(t *testing.T) {
	requireFaults(t)
	etcd := startEtcd(t)
	d := newTestServer(t, "--etcd-servers="+etcd.Endpoint, "--watch-slo=50ms")
	client := d.http2(1 << 20)
	for i := range 100 {
		d.watchAndDrain(client, fmt.Sprint("reader-", i%10))
	}
	starved := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_ = syscall.Kill(d.PID(), syscall.SIGSTOP)
			waitFor(t, 150*time.Millisecond)
			_ = syscall.Kill(d.PID(), syscall.SIGCONT)
			select {
			case <-time.After(15 * time.Millisecond):
			case <-starved:
				return
			}
		}
	}()
	const perRound, most = 100, 30
	written := 0
	d.until(func(r *serverReports) error {
		err := r.missed("configmaps", serverreport.CauseCPU)
		if err != nil && written < most*perRound {
			d.write(fmt.Sprint("starved-", written), perRound, 1000)
			written += perRound
		}
		return err
	})
	close(starved)
	<-done
	d.delivered(written * 100)
	f := expectedFault{cause: serverreport.CauseCPU, severity: critical, resource: "configmaps", topWords: "not enough CPU"}
	r := d.waitNamed(f, missed(serverreport.CauseCPU))
	d.checkTop(f)
	check(t, (&expectedFault{cause: serverreport.CauseCPU, severity: warning}).findIn(r.slo.Causes))
	if r.metrics[`millrace_process_delay_seconds{quantile="0.99"}`] < 0.1 {
		t.Errorf("timers fired in time: %+v", r.slo.Process)
	}
	for _, c := range r.slo.Causes {
		if c.Client != "" || c.Cause == serverreport.Cause(serverreport.StageEtcd) {
			t.Errorf("somebody else is blamed: %+v", c)
		}
	}
}

// TestClientThatDoesNotRead has one HTTP/2 client that does not read its stream, while
// other clients read theirs.
func TestClientThatDoesNotRead(t *testing.T) {
	requireFaults(t)
	d := newTestServer(t)
	others := d.http2(4 << 20)
	for range 3 {
		d.watchAndDrain(others, "reader")
	}
	stuck := d.watch(d.http2(256<<10), "sleeper")
	d.write("large", 20, 100<<10)
	d.delivered(3 * 20)
	f := expectedFault{cause: serverreport.Cause(serverreport.StageClient), severity: warning, resource: "configmaps", client: "sleeper (", objectivesMet: true, topWords: "clients do not read"}
	d.waitNamed(f, behind("sleeper", "client"))
	d.checkTop(f)
	for _, args := range [][]string{{}, {"watchers"}} {
		if output := d.runTop(args...); !strings.Contains(output, "Furthest behind") || !strings.Contains(output, "sleeper") {
			t.Errorf("top %v does not show the watch:\n%s", args, output)
		}
	}

	// The client now reads its backlog. These events count as late, for the client
	// and for the resource.
	drain(stuck)
	d.delivered(4 * 20)
	f.resource, f.objectivesMet = "", false
	r := d.waitNamed(f, missed(serverreport.Cause(serverreport.StageClient)), noneBehind, onlyLate("sleeper"))
	d.checkTop(f)
	for _, c := range r.slo.Causes {
		if c.Resource == "configmaps" && !strings.Contains(c.Message, "Without the events that waited for slow clients, the objective was met.") {
			t.Errorf("the server is blamed: %+v", c)
		}
	}
}

// TestThrottledConnection has an HTTP/1.1 and an HTTP/2 client that read through a slow
// network.
func TestThrottledConnection(t *testing.T) {
	requireFaults(t)
	d := newTestServer(t)
	others := d.http2(4 << 20)
	for range 3 {
		d.watchAndDrain(others, "reader")
	}
	network, dial := d.startSlowProxy()
	// The window is larger than all events together. If it closed, the client would
	// be the cause, not the network.
	d.watchAndDrain(through(d.http2(64<<20), dial), "remote-2")
	d.watchAndDrain(through(d.http1(), dial), "remote-1")
	d.write("medium", 200, 60<<10)
	d.delivered(3 * 200)
	for _, agent := range []string{"remote-1", "remote-2"} {
		f := expectedFault{cause: serverreport.Cause(serverreport.StageConnection), severity: warning, resource: "configmaps", client: agent + " (", objectivesMet: true, topWords: "network is full"}
		d.waitNamed(f, behind(agent, "connection"))
		d.checkTop(f)
	}

	close(network.fast)
	d.delivered(5 * 200)
	for _, agent := range []string{"remote-1", "remote-2"} {
		d.waitNamed(expectedFault{cause: serverreport.Cause(serverreport.StageConnection), severity: warning, client: agent + " (", topWords: "network is full"})
	}
	f := expectedFault{cause: serverreport.Cause(serverreport.StageConnection), severity: critical, resource: "configmaps", topWords: "network is full"}
	d.waitNamed(f, missed(f.cause), noneBehind, onlyLate("remote-"))
	d.checkTop(f)
}

// TestLargeObjects writes many small objects and a few of one megabyte, with many
// watches.
func TestLargeObjects(t *testing.T) {
	requireFaults(t)
	const clients, watches, small, large = 5, 8, 200, 6
	d := newTestServer(t, "--watch-slo=configmaps=20ms")
	for i := range clients {
		client := d.http2(64 << 20)
		for range watches {
			d.watchAndDrain(client, fmt.Sprint("reader-", i))
		}
	}
	d.write("small", small, 10)
	d.delivered(clients * watches * small)
	d.write("large", large, 1<<20-4<<10)
	d.delivered(clients * watches * (small + large))
	f := expectedFault{cause: serverreport.CauseSize, severity: critical, resource: "configmaps", topWords: "large objects"}
	d.waitNamed(f, missed(f.cause))
	d.checkTop(f)
}
