package slo_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/slo"
)

// TestStarvedProcess has a process that does not run for 150 ms at a time. CPU is the
// cause of writes that take about as long, and not of much longer ones.
func TestStarvedProcess(t *testing.T) {
	for writing, cause := range map[time.Duration]serverreport.Cause{150 * ms: serverreport.CauseCPU, 3 * time.Second: serverreport.Cause(serverreport.StageConnection)} {
		t.Run(string(cause), func(t *testing.T) {
			x := newSet(slo.Objectives{Default: 50 * ms})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = x.Run(ctx)
			}()
			x.starve(t, 20)
			// The steps of the clock below would count as delays of the timer.
			cancel()
			<-done
			w := x.open("pods", "a", new(fakeStream))
			x.clock.Step(5 * time.Second)
			for range 50 {
				x.deliver(w, stageTimes{ms, ms, ms, 0, writing}, 100)
			}
			r := x.SLO()
			if r.Met || r.Resources[0].Cause != cause || r.Clients[0].Cause != cause {
				t.Errorf("resources %+v, clients %+v", r.Resources, r.Clients)
			}
			for _, f := range r.Causes {
				if f.Client != "" && cause == serverreport.CauseCPU {
					t.Errorf("a client is named as a cause: %+v", f)
				}
			}
		})
	}
}

// starve makes the timer fire 150 ms late, several times.
func (x *fixture) starve(t *testing.T, times int) {
	t.Helper()
	wait := func(done func() bool) {
		t.Helper()
		for until := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
			if time.Now().After(until) {
				t.Fatal("Run does not receive from its ticker")
			}
		}
	}
	wait(x.clock.HasWaiters)
	for i := range times {
		x.clock.Step(200 * ms)
		wait(func() bool { return x.SLO().Process.Delay.Count > uint64(i) })
	}
}
