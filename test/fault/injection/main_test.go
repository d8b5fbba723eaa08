// Package injection verifies servers and replicas while faults are injected: processes are
// killed and paused, etcd is compacted and defragmented and changes its leader, and links
// between processes are cut, silent or slow. internal/tool/verify checks what all servers and
// replicas answer meanwhile; docs/faults.md says what is done.
//
//	etcd-1 ─┬─ etcd-2 ─┬─ etcd-3        each line is a link, with a proxy that can hold it up
//	     server-1   server-2   server-3
//	        └────┬─────┴─────┬────┘
//	        replica-1a   replica-1b
//	        replica-2a   replica-2b
//
// `make verify-faults` runs it. `go test` runs a short form over fewer processes.
package injection

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	// longVariable chooses the long form.
	longVariable = "MILLRACE_ROBUSTNESS"
	// runsVariable is the number of runs. Each has a seed of its own, one more than the one
	// before.
	runsVariable = "MILLRACE_FAULTS_RUNS"
	// serversVariable says what servers are: "own", "stock", or "mixed", of which the last one
	// is stock.
	serversVariable = "MILLRACE_FAULTS_SERVERS"
	// durationVariable is how long clients of a run work.
	durationVariable = "MILLRACE_FAULTS_DURATION"
)

// longDuration is how long clients of a run work, unless the environment says so.
const longDuration = 24 * time.Second

func needLong(t *testing.T) {
	t.Helper()
	if os.Getenv(longVariable) == "" {
		t.Skipf("takes minutes: %s=1 or make verify-faults runs it", longVariable)
	}
}

// duration is how long clients of a run work.
func duration(t *testing.T) time.Duration {
	t.Helper()
	given := os.Getenv(durationVariable)
	if given == "" {
		return longDuration
	}
	d, err := time.ParseDuration(given)
	if err != nil {
		t.Fatalf("%s: %v", durationVariable, err)
	}
	return d
}

// runs is the number of runs.
func runs(t *testing.T) int {
	t.Helper()
	given := os.Getenv(runsVariable)
	if given == "" {
		return 1
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: give a number above 0", runsVariable, given)
	}
	return n
}

// wholeShape is the cluster of the long form.
func wholeShape(t *testing.T) shape {
	t.Helper()
	s := shape{members: 3, servers: []string{"", "", ""}, replicas: []int{2, 2}}
	which, stock := os.Getenv(serversVariable), harness.Upstream()
	if !slices.Contains([]string{"", "own", "mixed", "stock"}, which) {
		t.Fatalf("%s is %q: give own, mixed or stock", serversVariable, which)
	}
	switch {
	case which == "" || which == "own":
	case stock == "":
		t.Fatalf("%s is %q, and no kube-apiserver is given", serversVariable, which)
	case which == "mixed":
		s.servers[2] = stock
	default:
		s.servers = []string{stock, stock, stock}
	}
	return s
}
