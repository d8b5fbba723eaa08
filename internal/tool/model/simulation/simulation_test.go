package simulation

import (
	"math"
	"reflect"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s: got %g, want %g within %g %%", what, got, want, 100*within)
	}
}

// TestSharedProcessor compares a queue with theory: with processor sharing, the mean time of a job
// is its length, divided by the free part of the processor.
func TestSharedProcessor(t *testing.T) {
	r := Run(Config{
		Seed: 1, Seconds: 500, Classes: []Class{{PerSecond: 70, Watchers: 1}},
		Tiers: []Tier{{Processes: 1, Cores: 1, EventSeconds: 0.01}},
	})
	near(t, "CPU", r.CPUSeconds[0], 350, 0.03)
	near(t, "deliveries", r.Deliveries, 35_000, 0.03)
	if r.P50 < 0.01 || r.P50 > 0.05 || r.P99 < 0.08 || r.P99 > 0.3 {
		t.Errorf("p50 %g and p99 %g are none of a processor at 70 %%", r.P50, r.P99)
	}
}

// TestShare divides five processors among jobs of which some can use only one.
func TestShare(t *testing.T) {
	m := &machine{clock: &clock{}, cores: 5}
	for _, parallel := range []float64{1, 8, 1, 8} {
		m.start(&job{work: 100, parallelism: parallel})
	}
	for i, want := range []float64{1, 1.5, 1, 1.5} {
		if got := m.jobs[i].rate; got != want {
			t.Errorf("job %d has %g processors, want %g", i, got, want)
		}
	}
}

// TestFanOut has one write at a time for a thousand watchers: the last watcher gets its event when
// the processors have sent all events.
func TestFanOut(t *testing.T) {
	r := Run(Config{
		Seed: 1, Seconds: 100, Regular: true, Classes: []Class{{PerSecond: 1, Watchers: 1000}},
		Tiers: []Tier{{Processes: 1, Cores: 2, EventSeconds: 100e-6}},
	})
	near(t, "p50", r.P50, 0.025, 0.03)
	near(t, "p99", r.P99, 0.0495, 0.03)
	near(t, "CPU", r.CPUSeconds[0], 10, 1e-6)
}

// TestDepth adds up what a tree adds to a write: its own time, the hops, and the work at each
// tier, none of which waits for another.
func TestDepth(t *testing.T) {
	r := Run(Config{
		Seed: 1, Seconds: 50, Regular: true, HopSeconds: 0.001,
		Write:   Lognormal{Median: 0.004, P99: 0.004},
		Classes: []Class{{PerSecond: 1, Watchers: 4}},
		Tiers: []Tier{
			{Processes: 1, Cores: 4, WriteSeconds: 0.002, FeedSeconds: 0.002},
			{Processes: 1, Cores: 4, FollowSeconds: 0.003, FeedSeconds: 0.002},
			{Processes: 4, Cores: 4, FollowSeconds: 0.003, EventSeconds: 1e-9},
		},
	})
	// Four replicas are fed one after the other: 2, 4, 6 and 8 ms.
	near(t, "p50", r.P50, 0.004+0.002+0.001+0.003+0.004+0.001+0.003+0.001, 0.02)
	near(t, "p99", r.P99, 0.004+0.002+0.001+0.003+0.008+0.001+0.003+0.001, 0.02)
	near(t, "root's CPU", r.CPUSeconds[0], 50*0.004, 1e-6)
	near(t, "middle's CPU", r.CPUSeconds[1], 50*0.011, 1e-6)
	near(t, "last tier's CPU", r.CPUSeconds[2], 50*4*0.003, 1e-3)
}

func TestSharedCores(t *testing.T) {
	cfg := Config{
		Seed: 1, Seconds: 60, Regular: true, SharedCores: 2, WatcherSeconds: 20e-6, WriterSeconds: 0.003,
		Write:   Lognormal{Median: 0.004, P99: 0.006},
		Classes: []Class{{PerSecond: 10, Watchers: 1000}},
		Tiers:   []Tier{{Processes: 1, WriteSeconds: 0.005, EventSeconds: 40e-6}},
	}
	r := Run(cfg)
	near(t, "CPU of the root", r.CPUSeconds[0], 600*(0.005+1000*40e-6), 0.01)
	near(t, "last watcher", r.P99, 0.004+0.030, 0.2)
	// Two processors serve the storm, while writes take 0.08 s of each second.
	storm := RunStorm(cfg, Storm{Watchers: 10_000, Resources: 10, CPUSeconds: 3e-3, WatcherSeconds: 1e-3})
	near(t, "storm", storm.Seconds, 40/(2-0.08), 0.02)
	near(t, "CPU of the storm", storm.CPUSeconds, 30, 1e-6)
}

// TestRepresentatives compares a tier that is simulated as a whole with a tier of which a part
// stands for all.
func TestRepresentatives(t *testing.T) {
	of := func(replicas int) Result {
		return Run(Config{
			Seed: 1, Seconds: 20, HopSeconds: 0.0005, Classes: []Class{{PerSecond: 50, Watchers: 100 * float64(replicas)}},
			Tiers: []Tier{{Processes: 1, Cores: 8, FeedSeconds: 1e-9}, {Processes: replicas, Cores: 8, FollowSeconds: 300e-6, EventSeconds: 15e-6}},
		})
	}
	few, many := of(maxProcesses), of(64*maxProcesses)
	near(t, "CPU", many.CPUSeconds[1], 64*few.CPUSeconds[1], 0.02)
	near(t, "deliveries", many.Deliveries, 64*few.Deliveries, 0.02)
	near(t, "p99", many.P99, few.P99, 0.05)
}

func TestOverload(t *testing.T) {
	r := Run(Config{
		Seed: 1, Seconds: 1000, Classes: []Class{{PerSecond: 100, Watchers: 1}},
		Tiers: []Tier{{Processes: 1, Cores: 1, EventSeconds: 0.02}},
	})
	if !r.Overloaded {
		t.Error("a processor that gets twice its work is not overloaded")
	}
}

// TestMillion simulates a million watchers twice, with the same result.
func TestMillion(t *testing.T) {
	cfg := Config{
		Seed: 7, Seconds: 10, HopSeconds: 0.0005, Write: Lognormal{Median: 0.004, P99: 0.006},
		Classes: []Class{{PerSecond: 20, Watchers: 1e6, Bytes: 3000}, {PerSecond: 500, Watchers: 1}},
		Tiers: []Tier{
			{Processes: 3, Cores: 16, FeedSeconds: 40e-6},
			{Processes: 8, Cores: 16, FollowSeconds: 40e-6, FeedSeconds: 40e-6},
			{Processes: 256, Cores: 16, FollowSeconds: 40e-6, EventSeconds: 14e-6},
		},
	}
	began := time.Now()
	first := Run(cfg)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
	if first.Deliveries < 15e7 || first.P99 <= 0 {
		t.Errorf("got %+v", first)
	}
	if again := Run(cfg); !reflect.DeepEqual(first, again) {
		t.Errorf("the same seed gave %+v and %+v", first, again)
	}
	cfg.Seed++
	if other := Run(cfg); reflect.DeepEqual(first, other) {
		t.Error("another seed gave the same")
	}
}
