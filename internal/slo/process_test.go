package slo_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/report"
	"github.com/millrace/millrace/internal/slo"
)

// TestStarvedProcess: a process that does not run for 150 ms at a time is blamed for
// writes that take about as long, and not for those that take much longer.
func TestStarvedProcess(t *testing.T) {
	for writing, cause := range map[time.Duration]report.Cause{150 * ms: report.CauseCPU, 3 * time.Second: report.Cause(report.StageConnection)} {
		t.Run(string(cause), func(t *testing.T) {
			x := newSet(slo.Objectives{Default: 50 * ms})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = x.Run(ctx)
			}()
			x.starve(t, 20)
			// What follows steps the clock further than a timer would be late.
			cancel()
			<-done
			w := x.open("pods", "a", new(at))
			x.clock.Step(5 * time.Second)
			for range 50 {
				x.deliver(w, times{ms, ms, ms, 0, writing}, 100)
			}
			r := x.SLO()
			if r.Met || r.Resources[0].Cause != cause || r.Clients[0].Cause != cause {
				t.Errorf("resources %+v, clients %+v", r.Resources, r.Clients)
			}
			for _, f := range r.Causes {
				if f.Client != "" && cause == report.CauseCPU {
					t.Errorf("a client is blamed: %+v", f)
				}
			}
		})
	}
}

// starve has timers fire 150 ms late.
func (x *set) starve(t *testing.T, times int) {
	t.Helper()
	wait := func(done func() bool) {
		t.Helper()
		for until := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
			if time.Now().After(until) {
				t.Fatal("the ticker is not heard")
			}
		}
	}
	wait(x.clock.HasWaiters)
	for i := range times {
		x.clock.Step(200 * ms)
		wait(func() bool { return x.SLO().Process.Delay.Count > uint64(i) })
	}
}
