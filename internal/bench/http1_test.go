package bench

import (
	"testing"
)

func TestLoadRefusesHTTP1Server(t *testing.T) {
	_, cfg := startFake(t, &fakeAPI{}, false)
	target, err := newTarget(targetConfig{rest: cfg})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.connect(t.Context(), 1); err == nil {
		t.Error("no error from a server without HTTP/2")
	}
	if target, err = newTarget(targetConfig{rest: cfg, http1: true}); err != nil {
		t.Fatal(err)
	}
	if conns, err := target.connect(t.Context(), 1); err != nil {
		t.Errorf("with --http1: %v", err)
	} else {
		closeAll(conns)
	}
}
