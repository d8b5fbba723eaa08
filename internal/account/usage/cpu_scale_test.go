package usage_test

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/account/usage"
)

// scaleTest has accounts of a process whose CPU time it sets.
type scaleTest struct {
	*usage.Accounts
	clock *clocktesting.FakeClock
	used  time.Duration
}

func newScaleTest() *scaleTest {
	s := &scaleTest{used: time.Hour}
	s.Accounts, s.clock = newAccounts(usage.Config{ProcessCPU: func() time.Duration { return s.used }})
	return s
}

// pass lets a time pass in which the process uses CPU.
func (s *scaleTest) pass(d, used time.Duration) {
	s.clock.Step(d)
	s.used += used
}

// end ends a request of a user, which began some time ago.
func (s *scaleTest) end(user string, estimate, took time.Duration) {
	r := podList(user)
	r.Cost.CPU, r.Cost.Seconds = estimate.Seconds(), took.Seconds()
	s.Observe(&r)
}

// check checks the CPU of a client within 2 %, or that of all for "".
func (s *scaleTest) check(t *testing.T, user string, want time.Duration) {
	t.Helper()
	report := s.Report()
	got := report.Total.CPU
	for _, c := range report.Clients {
		if c.User == user {
			got = c.CPU
		}
	}
	if got < 0.98*want.Seconds() || got > 1.02*want.Seconds() {
		t.Errorf("%q used %v s, want %v", user, got, want)
	}
}

// TestEstimatesAreScaled estimates four seconds of CPU each second, in a process that
// uses one.
func TestEstimatesAreScaled(t *testing.T) {
	s := newScaleTest()
	for range 50 {
		s.Begin(s.clock.Now())
		s.pass(time.Second, time.Second)
		for range 8 {
			s.end("alice", time.Second/2, time.Second)
		}
	}
	s.check(t, "", 50*time.Second)
}

// TestRequestsThatEndTogether end after three seconds in which the process did next to
// nothing. What it did before is not theirs.
func TestRequestsThatEndTogether(t *testing.T) {
	s := newScaleTest()
	s.pass(20*time.Second, 20*time.Second)
	for range 30 {
		s.Begin(s.clock.Now())
	}
	s.pass(3*time.Second, 650*time.Millisecond)
	for range 30 {
		s.end("alice", 3*time.Second, 3*time.Second)
	}
	s.check(t, "", 650*time.Millisecond)
}

// TestEstimatesThatAreTrue are not scaled: those of a long request and of a later one, soon
// after requests whose estimates were far too high.
func TestEstimatesThatAreTrue(t *testing.T) {
	s := newScaleTest()
	s.Begin(s.clock.Now())
	s.pass(3*time.Second, 0)
	s.end("waits", 90*time.Second, 3*time.Second)
	s.pass(30*time.Second, 0)
	s.Begin(s.clock.Now())
	s.pass(40*time.Second, 40*time.Second)
	s.end("long", 39*time.Second, 40*time.Second)
	s.Begin(s.clock.Now())
	s.pass(500*time.Millisecond, 500*time.Millisecond)
	s.end("short", 400*time.Millisecond, 500*time.Millisecond)
	s.check(t, "waits", 0)
	s.check(t, "long", 39*time.Second)
	s.check(t, "short", 400*time.Millisecond)
}

// TestLongRequestsHaveTheirShare sends short requests beside long ones, whose estimates are
// all twice of what they use.
func TestLongRequestsHaveTheirShare(t *testing.T) {
	s := newScaleTest()
	for range 10 {
		for range 4 {
			s.Begin(s.clock.Now())
			s.pass(time.Second, time.Second)
			for range 10 {
				s.end("short", 100*time.Millisecond, 100*time.Millisecond)
			}
		}
		s.end("long", 4*time.Second, 4*time.Second)
	}
	s.check(t, "", 40*time.Second)
	for _, c := range s.Report().Clients {
		if c.CPU < 10 {
			t.Errorf("%+v", c)
		}
	}
}
