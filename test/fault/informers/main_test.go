// Package informers tests that mirrors of the server's state stay equal to it.
// The mirrors are client-go informers and controller-runtime caches of every
// kind. The server is written to and restarted meanwhile.
//
// `go test` runs a short form. With MILLRACE_ROBUSTNESS=1 it runs the long form
// with 500 informers and restarts of etcd, which takes minutes.
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

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// longVariable chooses the long form.
	longVariable = "MILLRACE_ROBUSTNESS"
	// churnVariable overrides the total time of the writes, countVariable the
	// number of informers.
	churnVariable = "MILLRACE_INFORMERS_CHURN"
	countVariable = "MILLRACE_INFORMERS"
)

// patience bounds every wait. A reflector that fails to reach the server a few
// times within two minutes backs off for up to a minute. It may back off once
// more before it lists again. One restart does not lead to such long pauses.
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
	churn     time.Duration // in total
	faults    []fault
	names     int // of each kind in each namespace
}

func long() bool { return os.Getenv(longVariable) != "" }

// choose returns the short form or the long one, with the overrides of the
// environment. Short forms mostly wait, so they run in parallel.
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

// quiet discards the clients' messages about lost connections, which the tests
// cause on purpose.
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

// after waits for d.
func after(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
