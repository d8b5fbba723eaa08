package list

import (
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/test/support/benchtest"
)

func newTestLoader(t *testing.T, api http.Handler, http2 bool) *load.Loader {
	t.Helper()
	_, cfg := benchtest.StartTLS(t, api, http2)
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg, HTTP1: !http2})
	if err != nil {
		t.Fatal(err)
	}
	return &load.Loader{
		Target: target, Meter: testbed.NewMeter(os.Getpid()), CaptureDir: t.TempDir(), Progress: testbed.NewProgress(io.Discard),
		Plan: load.Plan{Requests: 7, Warmup: 2, Timeout: time.Minute},
	}
}
