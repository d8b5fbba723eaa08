package usage_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/report"
	"github.com/millrace/millrace/internal/usage"
)

// relist is that of one of a fleet's agents. They share a user.
func relist(i int) *usage.Relist {
	return &usage.Relist{
		Client:  report.NewClient("system:serviceaccount:a:agent", "agent/v1"),
		Address: fmt.Sprintf("10.%d.%d.1:%d", i/250, i%250, 30_000+i), Resource: "pods", Full: true,
	}
}

// seen makes a fleet known without relists.
func seen(l *usage.Accounts, agents int) {
	for i := range agents {
		r := relist(i)
		r.Full = false
		l.Relist(r)
	}
}

func TestStorms(t *testing.T) {
	for _, c := range []struct {
		name                   string
		fleet, agents, seconds int
		alter                  func(i int, r *usage.Relist)
		storm                  bool
	}{
		{name: "a third of a small fleet", fleet: 15, agents: 5, seconds: 20, storm: true},
		{name: "fewer than five", agents: 4, seconds: 1},
		{name: "less than a third of a small fleet", fleet: 100, agents: 19, seconds: 20},
		{name: "twenty of a fleet", fleet: 100, agents: 20, seconds: 20, storm: true},
		{name: "few of a large fleet", fleet: 1000, agents: 40, seconds: 20},
		{name: "slowly", fleet: 60, agents: 60, seconds: 600},
		{name: "one agent again and again", agents: 100, seconds: 20, alter: func(_ int, r *usage.Relist) { r.Address = "10.0.0.1:1" }},
		{name: "connections of one agent", fleet: 1, agents: 10, seconds: 20, alter: func(i int, r *usage.Relist) { r.Address = fmt.Sprintf("10.0.0.1:%d", i) }},
		{name: "many behind a proxy", agents: 30, seconds: 20, alter: func(i int, r *usage.Relist) { r.Address = fmt.Sprintf("10.0.0.%d:%d", i%2, i) }, storm: true},
		{name: "of different kinds", agents: 50, seconds: 20, alter: func(i int, r *usage.Relist) { r.Client.UserAgent = fmt.Sprint(i % 20) }},
		{name: "of different resources", agents: 50, seconds: 20, alter: func(i int, r *usage.Relist) { r.Resource = fmt.Sprint(i % 20) }},
		{name: "parts of a resource", agents: 50, seconds: 20, alter: func(_ int, r *usage.Relist) { r.Full = false }},
	} {
		l, clock := newLists(usage.Config{})
		seen(l, c.fleet)
		for i := range c.agents {
			r := relist(i)
			if c.alter != nil {
				c.alter(i, r)
			}
			if wait := l.Relist(r); wait != 0 {
				t.Errorf("%s: held back for %v", c.name, wait)
			}
			clock.Step(time.Duration(c.seconds) * time.Second / time.Duration(c.agents))
		}
		if storms := l.Report().Storms; len(storms) > 0 != c.storm {
			t.Errorf("%s: %+v", c.name, storms)
		}
	}
}

// TestStormIsTold follows one from its beginning until it is forgotten.
func TestStormIsTold(t *testing.T) {
	var log bytes.Buffer
	l, clock := newLists(usage.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	seen(l, 300)
	for i := range 200 {
		l.Relist(relist(i))
		r := podList("agent")
		r.Client, r.Relist = relist(i).Client, true
		l.Observe(&r)
		clock.Step(100 * time.Millisecond)
	}
	l.AddRelistBytes("agent", "pods", 5)
	storms := l.Report().Storms
	if len(storms) != 1 {
		t.Fatalf("%+v", storms)
	}
	s := storms[0]
	if s.UserAgent != "agent" || s.Resource != "pods" || !s.Ended.IsZero() || s.Requests != 200 || s.Clients < 190 || s.Clients > 210 || s.Fleet < 280 || s.Fleet > 320 {
		t.Errorf("%+v", s)
	}
	// It was noticed with the twentieth.
	if s.Bytes != 181*1000+5 || s.Began.Sub(start) != 1900*time.Millisecond {
		t.Errorf("%d bytes since %v", s.Bytes, s.Began.Sub(start))
	}
	if !strings.Contains(s.Advice, "agent listed pods anew") || !strings.Contains(s.Advice, "--pace-relists") {
		t.Errorf("advice: %s", s.Advice)
	}
	last := clock.Now().Add(-100 * time.Millisecond)
	clock.Step(31 * time.Second)
	if s := l.Report().Storms; len(s) != 1 || !s[0].Ended.Equal(last) {
		t.Errorf("%+v, the last came at %v", s, last)
	}
	clock.Step(11 * time.Minute)
	if s := l.Report().Storms; len(s) != 0 {
		t.Errorf("%+v", s)
	}
	if text := log.String(); strings.Count(text, "began") != 1 || strings.Count(text, "ended") != 1 {
		t.Error(text)
	}
}

// TestPollersAreNoStorm: what goes on all the time is none, but at its beginning.
func TestPollersAreNoStorm(t *testing.T) {
	l, clock := newLists(usage.Config{})
	for range 60 {
		for i := range 30 {
			l.Relist(relist(i))
		}
		clock.Step(15 * time.Second)
	}
	storms := l.Report().Storms
	if len(storms) > 1 {
		t.Errorf("%+v", storms)
	}
	for _, s := range storms {
		if s.Ended.Sub(s.Began) > 5*time.Minute {
			t.Errorf("from %v to %v", s.Began, s.Ended)
		}
	}
}

// restart lets a fleet list as client-go does: who is told to wait comes back then.
// It returns when each agent listed, and how many were told to list at the same time
// at most.
func restart(l *usage.Accounts, clock *clocktesting.FakeClock, agents int, gone func(int) bool) (listed []time.Duration, most int) {
	due := make([]time.Time, agents)
	for i := range due {
		due[i] = clock.Now()
	}
	done := make([]bool, agents)
	answered := map[time.Time]int{}
	for range 2 * 3600 {
		now := clock.Now()
		for i := range due {
			if done[i] || due[i].After(now) || gone != nil && gone(i) && now.After(start) {
				continue
			}
			wait := l.Relist(relist(i))
			if wait == 0 {
				done[i] = true
				listed = append(listed, now.Sub(start))
				continue
			}
			due[i] = now.Add(wait)
			if wait < 30*time.Second { // longer ones are not for listing, but for asking again
				answered[due[i]]++
				most = max(most, answered[due[i]])
			}
		}
		if !slices.Contains(done, false) {
			break
		}
		clock.Step(time.Second)
	}
	return listed, most
}

// TestPacing restarts a thousand agents at once, a tenth of which may list a minute.
func TestPacing(t *testing.T) {
	l, clock := newLists(usage.Config{Pace: 10})
	seen(l, 1000)
	listed, most := restart(l, clock, 1000, nil)
	if len(listed) != 1000 {
		t.Fatalf("%d have listed", len(listed))
	}
	if last := listed[999]; last < 8*time.Minute || last > 12*time.Minute {
		t.Errorf("the last listed after %v", last)
	}
	// 50 listed before it was a storm.
	for i := 50; i+110 < len(listed); i++ {
		if took := listed[i+110] - listed[i]; took < 50*time.Second {
			t.Fatalf("110 listed within %v, from %v on", took, listed[i])
		}
	}
	// A tenth of a thousand a minute are fewer than two a second.
	if most > 3 {
		t.Errorf("%d were told to come at the same time", most)
	}
	r := l.Report()
	if !r.Pacing || r.Paced == 0 || len(r.Storms) != 1 || r.Storms[0].Clients < 930 || strings.Contains(r.Storms[0].Advice, "--pace-relists") {
		t.Errorf("%+v", r)
	}
	clock.Step(time.Minute)
	if s := l.Report().Storms; s[0].Ended.IsZero() {
		t.Errorf("%+v", s)
	}
	if wait := l.Relist(relist(1)); wait != 0 {
		t.Errorf("held back for %v after the storm", wait)
	}
}

// TestPacingOfAnUnknownFleet: the server was started a moment ago.
func TestPacingOfAnUnknownFleet(t *testing.T) {
	l, clock := newLists(usage.Config{Pace: 10})
	listed, most := restart(l, clock, 1000, nil)
	if last := listed[len(listed)-1]; len(listed) != 1000 || last < 8*time.Minute || last > 12*time.Minute {
		t.Errorf("%d listed, the last after %v", len(listed), last)
	}
	if most > 3 {
		t.Errorf("%d were told to come at the same time", most)
	}
}

// TestPacingGoesOnWithoutThoseWhoGiveUp gives their times to others.
func TestPacingGoesOnWithoutThoseWhoGiveUp(t *testing.T) {
	l, clock := newLists(usage.Config{Pace: 10})
	seen(l, 1000)
	listed, _ := restart(l, clock, 1000, func(i int) bool { return i%2 == 0 })
	if n := len(listed); n < 500 {
		t.Fatalf("%d have listed", n)
	}
	if last := listed[len(listed)-1]; last > 12*time.Minute {
		t.Errorf("the last listed after %v", last)
	}
	clock.Step(time.Hour)
	if s := l.Report().Storms; len(s) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestPacingOfNewConnections: who comes over another connection each time, behind a
// proxy, is let in as well.
func TestPacingOfNewConnections(t *testing.T) {
	l, clock := newLists(usage.Config{Pace: 60})
	port := 0
	ask := func() time.Duration {
		port++
		r := relist(0)
		r.Address = fmt.Sprintf("10.0.0.1:%d", port)
		return l.Relist(r)
	}
	for range 100 {
		ask()
	}
	in := 0
	for range 600 {
		clock.Step(time.Second)
		if ask() == 0 {
			in++
		}
	}
	if in < 100 {
		t.Errorf("%d of 600 were let in", in)
	}
}

func TestExemptClientsAreNeverHeld(t *testing.T) {
	l, _ := newLists(usage.Config{Pace: 1})
	for i := range 300 {
		r := relist(i)
		r.Exempt = true
		if wait := l.Relist(r); wait != 0 {
			t.Fatalf("held back for %v", wait)
		}
	}
	first, second := l.Relist(relist(500)), l.Relist(relist(501))
	if first != 0 || second == 0 {
		t.Errorf("others wait for %v and %v", first, second)
	}
}

// TestKindsAreBounded floods the fleets and gatherings with names.
func TestKindsAreBounded(t *testing.T) {
	l, clock := newLists(usage.Config{})
	for i := range 20_000 {
		r := relist(i)
		r.Client.UserAgent = fmt.Sprint("kind", i)
		l.Relist(r)
		clock.Step(time.Millisecond)
	}
	for i := range 20 {
		l.Relist(relist(i))
	}
	if s := l.Report().Storms; len(s) != 1 {
		t.Errorf("%+v", s)
	}
}
