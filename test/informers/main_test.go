// Package informers tests that what clients mirror stays equal to the server's
// state: client-go informers and controller-runtime caches of every kind follow
// a server that is written to and restarted. `go test` runs a short form;
// MILLRACE_ROBUSTNESS=1 the long one, which takes minutes, with 500 informers
// and restarts of etcd too.
package informers

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/millrace/millrace/test/harness"
)

const (
	// longVariable chooses the long forms.
	longVariable = "MILLRACE_ROBUSTNESS"
	// churnVariable and countVariable override how long is written in all and
	// to how many informers.
	churnVariable = "MILLRACE_INFORMERS_CHURN"
	countVariable = "MILLRACE_INFORMERS"
)

// patience bounds every wait. A reflector that found the server gone a few times
// within two minutes waits up to a minute before it tries again, and as long once
// more before it lists; one restart does not bring it that far.
func patience() time.Duration {
	if long() {
		return 150 * time.Second
	}
	return time.Minute
}

func TestMain(m *testing.M) { harness.Main(m) }

// scale is the size of a test.
type scale struct {
	informers int
	churn     time.Duration // in all
	faults    []fault
	names     int // of each kind in each namespace
}

func long() bool { return os.Getenv(longVariable) != "" }

// choose is the short form or the long one, with what the environment says.
// Short forms mostly wait, and do that side by side.
func choose(t *testing.T, short, full scale) scale {
	t.Helper()
	s := short
	if long() {
		s = full
	} else {
		t.Parallel()
	}
	var err error
	if text := os.Getenv(churnVariable); text != "" {
		if s.churn, err = time.ParseDuration(text); err != nil {
			t.Fatalf("parse %s: %v", churnVariable, err)
		}
	}
	if text := os.Getenv(countVariable); text != "" {
		if s.informers, err = strconv.Atoi(text); err != nil {
			t.Fatalf("parse %s: %v", countVariable, err)
		}
	}
	return s
}

// quiet keeps what clients log about lost connections, which the tests cause,
// out of the output.
var quiet = sync.OnceFunc(func() {
	klog.SetLogger(logr.Discard())
	runtimelog.SetLogger(logr.Discard())
})

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// after waits.
func after(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
