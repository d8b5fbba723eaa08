package testbed

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestRemoteMeter(t *testing.T) {
	text := "# HELP x\nprocess_cpu_seconds_total 12.34\nprocess_resident_memory_bytes 5e+08\nprocess_cpu_seconds_totals 9\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text == "" {
			http.Error(w, "no", http.StatusForbidden)
		}
		_, _ = w.Write([]byte(text))
	}))
	defer s.Close()
	target, err := NewTarget(TargetConfig{REST: &rest.Config{Host: s.URL}, HTTP1: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewRemoteMeter(target)
	if err != nil {
		t.Fatal(err)
	}
	if u, err := m.Read(); err != nil || u.CPU != 12340*time.Millisecond || u.RSS != 5e8 || m.ResetPeak() {
		t.Errorf("got %+v, %v", u, err)
	}
	// A server that lets nobody read its metrics can be measured all the same.
	text = ""
	if m, err = NewRemoteMeter(target); err == nil {
		t.Error("no error")
	}
	if u, err := m.Read(); err != nil || u != (Usage{}) {
		t.Errorf("got %+v, %v", u, err)
	}
	for _, bad := range []string{"", "process_cpu_seconds_total 1\n", "process_cpu_seconds_total x\nprocess_resident_memory_bytes 1\n"} {
		if _, err := parseProcessMetrics(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestMemoryTrace(t *testing.T) {
	var trace memoryTrace
	const n = 10 * maxTraceSamples
	for i := range n {
		trace.add(MemorySample{Seconds: float64(i)})
	}
	got := trace.samples
	if len(got) > maxTraceSamples || len(got) < maxTraceSamples/2 || got[0].Seconds != 0 || got[len(got)-1].Seconds < n*0.9 {
		t.Errorf("%d samples from %g to %g", len(got), got[0].Seconds, got[len(got)-1].Seconds)
	}
	for i := 2; i < len(got); i++ {
		if got[i].Seconds-got[i-1].Seconds != got[1].Seconds-got[0].Seconds {
			t.Errorf("sample %d at %g after %g", i, got[i].Seconds, got[i-1].Seconds)
		}
	}
}
