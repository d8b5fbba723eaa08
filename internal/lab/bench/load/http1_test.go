package load

import (
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/test/support/benchtest"
)

func TestLoadRefusesHTTP1Server(t *testing.T) {
	_, cfg := benchtest.StartTLS(t, &benchtest.API{}, false)
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Connect(t.Context(), 1); err == nil {
		t.Error("no error from a server without HTTP/2")
	}
	if target, err = testbed.NewTarget(testbed.TargetConfig{REST: cfg, HTTP1: true}); err != nil {
		t.Fatal(err)
	}
	if conns, err := target.Connect(t.Context(), 1); err != nil {
		t.Errorf("with --http1: %v", err)
	} else {
		testbed.CloseAll(conns)
	}
}
