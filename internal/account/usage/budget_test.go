package usage_test

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
)

// budgetTest charges clients by requests, as servers do.
type budgetTest struct {
	*usage.Budgets
	accounts *usage.Accounts
	clock    *clocktesting.FakeClock
}

func newBudgetTest(cfg usage.BudgetConfig) *budgetTest {
	clock := clocktesting.NewFakeClock(start)
	cfg.Clock = clock
	budgets := usage.NewBudgets(cfg)
	return &budgetTest{Budgets: budgets, accounts: usage.NewAccounts(usage.Config{Budgets: budgets, Clock: clock}), clock: clock}
}

func (b *budgetTest) use(user, address string, cpu float64, bytes uint64) {
	b.accounts.Observe(&usage.Request{Client: serverreport.NewClient(user, "agent"), Address: address, Cost: serverreport.ListCost{CPU: cpu, Bytes: bytes}})
}

func TestBudgets(t *testing.T) {
	const here, there = "10.0.0.1:1", "10.0.0.2:1"
	b := newBudgetTest(usage.BudgetConfig{CPUSeconds: 6, Bytes: 60_000})
	check := func(user, address string, want usage.Overdraft) {
		t.Helper()
		if got := b.Check(user, address); got != want {
			t.Errorf("%s at %s: %+v, want %+v", user, address, got, want)
		}
	}
	b.use("alice", here, 5, 10_000)
	check("alice", here, usage.Overdraft{})
	b.use("alice", "10.0.0.1:2", 2, 0) // a port is no address
	check("alice", here, usage.Overdraft{Budget: "cpu", RetryAfter: 11 * time.Second})
	check("alice", there, usage.Overdraft{})
	check("bob", here, usage.Overdraft{})
	b.accounts.ChargeInitialEvents(serverreport.NewClient("alice", "other"), here, 80_000)
	check("alice", here, usage.Overdraft{Budget: "bytes", RetryAfter: 31 * time.Second})
	b.clock.Step(30 * time.Second)
	check("alice", here, usage.Overdraft{Budget: "bytes", RetryAfter: time.Second})
	b.clock.Step(time.Second)
	check("alice", here, usage.Overdraft{})
	b.use("alice", here, 0, 1_000_000_000)
	check("alice", here, usage.Overdraft{Budget: "bytes", RetryAfter: time.Minute})
	b.clock.Step(9*time.Minute + time.Second)
	check("alice", here, usage.Overdraft{})
	b.clock.Step(24 * time.Hour)
	b.use("alice", here, 5.9, 0) // nothing is saved up
	check("alice", here, usage.Overdraft{})
	b.use("alice", here, 0.2, 0)
	check("alice", here, usage.Overdraft{Budget: "cpu", RetryAfter: 2 * time.Second})
}

func TestNoBudgets(t *testing.T) {
	b := newBudgetTest(usage.BudgetConfig{})
	b.use("alice", "10.0.0.1:1", 1e9, 1<<40)
	if over := b.Check("alice", "10.0.0.1:1"); over != (usage.Overdraft{}) {
		t.Errorf("%+v", over)
	}
}

// TestBudgetsAreBounded sends requests of more clients than are kept: the one that has
// overdrawn is not forgotten.
func TestBudgetsAreBounded(t *testing.T) {
	b := newBudgetTest(usage.BudgetConfig{Bytes: 1_000})
	b.use("alice", "10.0.0.1:1", 0, 2_000)
	for i := range 40_000 {
		b.use(fmt.Sprint("user-", i), "10.0.0.1:1", 0, 100)
	}
	if over := b.Check("alice", "10.0.0.1:1"); over.Budget != "bytes" {
		t.Errorf("%+v", over)
	}
	if over := b.Check("user-39999", "10.0.0.1:1"); over != (usage.Overdraft{}) {
		t.Errorf("%+v", over)
	}
}
