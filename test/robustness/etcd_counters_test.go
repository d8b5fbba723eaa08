package robustness

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/harness"
)

// counters are etcd's own, since its start.
type counters struct {
	at time.Time
	// ranges counts Range requests that a client began, whatever came of them.
	ranges float64
	// sent counts bytes to clients.
	sent float64
}

// growth is the difference of two readings, and seconds the time between them.
type growth struct{ seconds, ranges, sent float64 }

func (c counters) since(before counters) growth {
	return growth{c.at.Sub(before.at).Seconds(), c.ranges - before.ranges, c.sent - before.sent}
}

// burst is how many ranges of the background may fall into the time of another
// growth: twice the share, since they come in bursts some seconds apart and what
// a pause holds up is done after it.
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
