package robustness

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/test/support/harness"
)

const (
	// pause exceeds two of the 10 s timeouts after which a server gives up.
	pause = 20 * time.Second
	// background is how long the test measures etcd's load without readers:
	// about as long as the pause with its end.
	background = pause + 5*time.Second
	readers    = 200
	objects    = 3000
	objectSize = 1000
	// patience bounds a request. The server takes at most 10 s; the rest allows
	// for a machine with other work.
	patience = 30 * time.Second
	// maxReads is the number of revision reads that the pause may cost etcd,
	// whatever the number of readers. Reads follow one another and each is
	// given up after 10 s, so 3 fit into 20 s including both ends. Readers that
	// wait when etcd is back share one more read. That one counts twice, for
	// readers that arrive a moment later.
	maxReads = 3 + 2
)

// TestEtcdPaused pauses etcd while 200 clients send consistent LISTs. Each
// client must get its list or a retriable error, and all must get their lists
// after the pause. The readers must share their reads from etcd.
func TestEtcdPaused(t *testing.T) {
	needSwitch(t)
	etcd := harness.StartEtcd(t)
	s := harness.Start(t, harness.ShortTempDir(t), "--etcd-servers="+etcd.Endpoint)
	fillConfigMaps(t, etcd)
	l := newListers(t, s)
	l.untilAnswered(t) // so that nothing below happens for the first time
	if l.failures() != 0 {
		t.Fatalf("before the pause, LISTs: %s", l)
	}

	before := readCounters(t, etcd)
	after(t, background)
	idle := readCounters(t, etcd).since(before)
	t.Logf("background: %s", idle)

	before = readCounters(t, etcd)
	etcd.Signal(syscall.SIGSTOP)
	var resumed sync.WaitGroup
	resumed.Go(func() {
		defer etcd.Signal(syscall.SIGCONT)
		after(t, pause)
	})
	l.untilAnswered(t)
	resumed.Wait()
	paused := readCounters(t, etcd).since(before)
	t.Logf("pause: %s; LISTs: %s", paused, l)
	if l.failures() < readers {
		t.Errorf("%d LISTs failed during the pause, want each reader's at least once", l.failures())
	}
	if most := idle.burst(paused) + maxReads; paused.ranges > most {
		t.Errorf("etcd got %.0f Range requests for %d LISTs, want at most %.0f: twice the background and %d revision reads",
			paused.ranges, l.attempts(), most, maxReads)
	}
	if paused.sent > objects*objectSize/2 {
		t.Errorf("etcd sent %.0f bytes: a request read the objects from etcd", paused.sent)
	}

	before = readCounters(t, etcd)
	for range 5 {
		l.untilAnswered(t)
		if l.failures() != 0 {
			t.Errorf("after the pause, LISTs: %s", l)
		}
	}
	recovered := readCounters(t, etcd).since(before)
	t.Logf("after: %s for %d LISTs", recovered, 5*readers)
	if most := idle.burst(recovered) + 5*readers; recovered.ranges > most {
		t.Errorf("after the pause etcd got %.0f Range requests, want at most %.0f: twice the background and one for each of the LISTs", recovered.ranges, most)
	}
	if recovered.sent > objects*objectSize/2 {
		t.Errorf("after the pause etcd sent %.0f bytes: somebody read the objects from it", recovered.sent)
	}
}

func fillConfigMaps(t *testing.T, etcd *harness.Etcd) {
	t.Helper()
	filler, err := fill.New(fill.Config{
		Shape: fill.Shape{ConfigMaps: objects, ConfigMapSize: objectSize},
		Etcd:  fill.EtcdConfig{Endpoints: []string{etcd.Endpoint}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filler.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// after waits for d.
func after(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
