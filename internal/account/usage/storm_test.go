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

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
)

// relist returns the Relist of an agent of a group. The agents share a user.
func relist(i int) *usage.Relist {
	return &usage.Relist{
		Client:  serverreport.NewClient("system:serviceaccount:a:agent", "agent/v1"),
		Address: fmt.Sprintf("10.%d.%d.1:%d", i/250, i%250, 30_000+i), Resource: "pods", Full: true,
	}
}

// addGroup makes a group of agents known, without relists.
func addGroup(accounts *usage.Accounts, agents int) {
	for i := range agents {
		r := relist(i)
		r.Full = false
		accounts.Relist(r)
	}
}

func TestStorms(t *testing.T) {
	for _, c := range []struct {
		name                   string
		group, agents, seconds int
		alter                  func(i int, r *usage.Relist)
		storm                  bool
	}{
		{name: "a third of a small group", group: 15, agents: 5, seconds: 20, storm: true},
		{name: "fewer than five", agents: 4, seconds: 1},
		{name: "less than a third of a small group", group: 100, agents: 19, seconds: 20},
		{name: "twenty of a group", group: 100, agents: 20, seconds: 20, storm: true},
		{name: "few of a large group", group: 1000, agents: 40, seconds: 20},
		{name: "slowly", group: 60, agents: 60, seconds: 600},
		{name: "one agent again and again", agents: 100, seconds: 20, alter: func(_ int, r *usage.Relist) { r.Address = "10.0.0.1:1" }},
		{name: "connections of one agent", group: 1, agents: 10, seconds: 20, alter: func(i int, r *usage.Relist) { r.Address = fmt.Sprintf("10.0.0.1:%d", i) }},
		{name: "many behind a proxy", agents: 30, seconds: 20, alter: func(i int, r *usage.Relist) { r.Address = fmt.Sprintf("10.0.0.%d:%d", i%2, i) }, storm: true},
		{name: "of different programs", agents: 50, seconds: 20, alter: func(i int, r *usage.Relist) { r.Client.UserAgent = fmt.Sprint(i % 20) }},
		{name: "of different resources", agents: 50, seconds: 20, alter: func(i int, r *usage.Relist) { r.Resource = fmt.Sprint(i % 20) }},
		{name: "parts of a resource", agents: 50, seconds: 20, alter: func(_ int, r *usage.Relist) { r.Full = false }},
	} {
		accounts, clock := newAccounts(usage.Config{})
		addGroup(accounts, c.group)
		for i := range c.agents {
			r := relist(i)
			if c.alter != nil {
				c.alter(i, r)
			}
			if wait := accounts.Relist(r); wait != 0 {
				t.Errorf("%s: has to wait %v", c.name, wait)
			}
			clock.Step(time.Duration(c.seconds) * time.Second / time.Duration(c.agents))
		}
		if storms := accounts.Report().Storms; len(storms) > 0 != c.storm {
			t.Errorf("%s: %+v", c.name, storms)
		}
	}
}

// TestStormIsReported follows a storm from its beginning until reports drop it.
func TestStormIsReported(t *testing.T) {
	var log bytes.Buffer
	accounts, clock := newAccounts(usage.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	addGroup(accounts, 300)
	for i := range 200 {
		accounts.Relist(relist(i))
		r := podList("agent")
		r.Client, r.Relist = relist(i).Client, true
		accounts.Observe(&r)
		clock.Step(100 * time.Millisecond)
	}
	accounts.AddRelistBytes("agent", "pods", 5)
	storms := accounts.Report().Storms
	if len(storms) != 1 {
		t.Fatalf("%+v", storms)
	}
	s := storms[0]
	if s.UserAgent != "agent" || s.Resource != "pods" || !s.Ended.IsZero() || s.Requests != 200 || s.Clients < 170 || s.Clients > 200 || s.Fleet < 255 || s.Fleet > 345 {
		t.Errorf("%+v", s)
	}
	// The twentieth client began the storm.
	if s.Bytes != 181*1000+5 || s.Began.Sub(start) != 1900*time.Millisecond {
		t.Errorf("%d bytes since %v", s.Bytes, s.Began.Sub(start))
	}
	if !strings.Contains(s.Advice, "agent listed pods again") || !strings.Contains(s.Advice, "--pace-relists") {
		t.Errorf("advice: %s", s.Advice)
	}
	last := clock.Now().Add(-100 * time.Millisecond)
	clock.Step(31 * time.Second)
	if s := accounts.Report().Storms; len(s) != 1 || !s[0].Ended.Equal(last) {
		t.Errorf("%+v, the last came at %v", s, last)
	}
	clock.Step(11 * time.Minute)
	if s := accounts.Report().Storms; len(s) != 0 {
		t.Errorf("%+v", s)
	}
	if text := log.String(); strings.Count(text, "began") != 1 || strings.Count(text, "ended") != 1 {
		t.Error(text)
	}
}

// TestPollersAreNoStorm has clients that list all the time. Only their beginning may
// count as a storm.
func TestPollersAreNoStorm(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{})
	for range 60 {
		for i := range 30 {
			accounts.Relist(relist(i))
		}
		clock.Step(15 * time.Second)
	}
	storms := accounts.Report().Storms
	if len(storms) > 1 {
		t.Errorf("%+v", storms)
	}
	for _, s := range storms {
		if s.Ended.Sub(s.Began) > 5*time.Minute {
			t.Errorf("from %v to %v", s.Began, s.Ended)
		}
	}
}

// restart lets a group list as client-go does: an agent that has to wait comes back
// after that. restart returns when each agent listed, and the largest number of agents
// that were told to come at the same time. Agents with gone(i) never come back.
func restart(accounts *usage.Accounts, clock *clocktesting.FakeClock, agents int, gone func(int) bool) (listed []time.Duration, most int) {
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
			wait := accounts.Relist(relist(i))
			if wait == 0 {
				done[i] = true
				listed = append(listed, now.Sub(start))
				continue
			}
			due[i] = now.Add(wait)
			if wait < 30*time.Second { // after a longer wait an agent only asks again
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

// TestPacing restarts a thousand agents at once. A tenth of them may list in a minute.
func TestPacing(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{PacePercent: 10})
	addGroup(accounts, 1000)
	listed, most := restart(accounts, clock, 1000, nil)
	if len(listed) != 1000 {
		t.Fatalf("%d have listed", len(listed))
	}
	if last := listed[999]; last < 8*time.Minute || last > 12*time.Minute {
		t.Errorf("the last listed after %v", last)
	}
	// 50 listed before the storm began.
	for i := 50; i+110 < len(listed); i++ {
		if took := listed[i+110] - listed[i]; took < 50*time.Second {
			t.Fatalf("110 listed within %v, from %v on", took, listed[i])
		}
	}
	// A tenth of a thousand a minute are fewer than two a second.
	if most > 3 {
		t.Errorf("%d were told to come at the same time", most)
	}
	r := accounts.Report()
	if !r.Pacing || r.Paced == 0 || len(r.Storms) != 1 || r.Storms[0].Clients < 930 || strings.Contains(r.Storms[0].Advice, "--pace-relists") {
		t.Errorf("%+v", r)
	}
	clock.Step(time.Minute)
	if s := accounts.Report().Storms; s[0].Ended.IsZero() {
		t.Errorf("%+v", s)
	}
	if wait := accounts.Relist(relist(1)); wait != 0 {
		t.Errorf("has to wait %v after the storm", wait)
	}
}

// TestPacingOfAnUnknownGroup has no group before the storm, as after a server's start.
func TestPacingOfAnUnknownGroup(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{PacePercent: 10})
	listed, most := restart(accounts, clock, 1000, nil)
	if last := listed[len(listed)-1]; len(listed) != 1000 || last < 8*time.Minute || last > 12*time.Minute {
		t.Errorf("%d listed, the last after %v", len(listed), last)
	}
	if most > 3 {
		t.Errorf("%d were told to come at the same time", most)
	}
}

// TestPacingReusesTickets: tickets of agents that give up are given to others.
func TestPacingReusesTickets(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{PacePercent: 10})
	addGroup(accounts, 1000)
	listed, _ := restart(accounts, clock, 1000, func(i int) bool { return i%2 == 0 })
	if n := len(listed); n < 500 {
		t.Fatalf("%d have listed", n)
	}
	if last := listed[len(listed)-1]; last > 12*time.Minute {
		t.Errorf("the last listed after %v", last)
	}
	clock.Step(time.Hour)
	if s := accounts.Report().Storms; len(s) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestPacingOfNewConnections lists through a proxy that opens a new connection for
// each request. It must be admitted at the rate too.
func TestPacingOfNewConnections(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{PacePercent: 60})
	port := 0
	ask := func() time.Duration {
		port++
		r := relist(0)
		r.Address = fmt.Sprintf("10.0.0.1:%d", port)
		return accounts.Relist(r)
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
		t.Errorf("%d of 600 were admitted", in)
	}
}

func TestExemptClientsNeverWait(t *testing.T) {
	accounts, _ := newAccounts(usage.Config{PacePercent: 1})
	for i := range 300 {
		r := relist(i)
		r.Exempt = true
		if wait := accounts.Relist(r); wait != 0 {
			t.Fatalf("has to wait %v", wait)
		}
	}
	first, second := accounts.Relist(relist(500)), accounts.Relist(relist(501))
	if first != 0 || second == 0 {
		t.Errorf("others wait for %v and %v", first, second)
	}
}

// TestProgramsAreBounded floods groups and candidates with programs' names. A storm
// must be detected after that.
func TestProgramsAreBounded(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{})
	for i := range 20_000 {
		r := relist(i)
		r.Client.UserAgent = fmt.Sprint("program", i)
		accounts.Relist(r)
		clock.Step(time.Millisecond)
	}
	for i := range 20 {
		accounts.Relist(relist(i))
	}
	if s := accounts.Report().Storms; len(s) != 1 {
		t.Errorf("%+v", s)
	}
}
