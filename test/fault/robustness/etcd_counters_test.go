package robustness

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// counters are values of etcd's own metrics, counted since etcd started.
type counters struct {
	at time.Time
	// ranges is the number of Range requests that etcd received, including
	// those that failed.
	ranges float64
	// sent is the number of bytes sent to clients.
	sent float64
}

// growth is the difference between two readings. seconds is the time between
// them.
type growth struct{ seconds, ranges, sent float64 }

func (c counters) since(before counters) growth {
	return growth{c.at.Sub(before.at).Seconds(), c.ranges - before.ranges, c.sent - before.sent}
}

// burst returns an upper bound for the number of background ranges during
// other. It is twice the proportional share: background requests come in bursts
// some seconds apart, and the ones that a pause delays follow after it.
func (g growth) burst(other growth) float64 {
	return 2 * g.ranges * max(1, other.seconds/g.seconds)
}

func readCounters(t *testing.T, etcd *harness.Etcd) counters {
	t.Helper()
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get(etcd.Endpoint + "/metrics")
	if err != nil {
		t.Fatalf("read etcd's metrics: %v", err)
	}
	defer resp.Body.Close()
	c, found := counters{at: time.Now()}, 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		to := (*float64)(nil)
		switch {
		case strings.HasPrefix(name, "grpc_server_started_total{") && strings.Contains(name, `grpc_method="Range"`):
			to = &c.ranges
		case name == "etcd_network_client_grpc_sent_bytes_total":
			to = &c.sent
		default:
			continue
		}
		found++
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatalf("parse %q: %v", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil || found != 2 {
		t.Fatalf("etcd's metrics have %d of 2 counters, %v", found, err)
	}
	return c
}

func (g growth) String() string {
	return fmt.Sprintf("%.0f ranges and %.0f bytes sent in %.1f s", g.ranges, g.sent, g.seconds)
}
