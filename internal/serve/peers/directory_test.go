package peers

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// lease returns a Lease of 30 s that was renewed at a time by its server's clock.
func lease(name string, version int, clock time.Time, state string) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{annotation: state}},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: clock}, LeaseDurationSeconds: ptr.To[int32](30)},
	}
}

// TestForeignClocks has a server whose clock is years late, and one that ended and whose
// clock was years ahead. Only what changes by the reader's clock is alive.
func TestForeignClocks(t *testing.T) {
	t.Parallel()
	d := New(Config{Name: "self"})
	start := time.Unix(1_000_000_000, 0)
	var others []Member
	var dead []*coordinationv1.Lease
	for round := range 361 {
		now := start.Add(time.Duration(round) * 10 * time.Second)
		others, dead = d.judge([]coordinationv1.Lease{
			lease("self", round, now, `{"ready":true}`),
			lease("behind", round, now.AddDate(-5, 0, 0), `{"ready":true,"watches":3}`),
			lease("ended", 1, start.AddDate(5, 0, 0), `{"ready":true}`),
		}, now)
		if round > 0 && (len(others) != 1 || others[0].Name != "behind" || others[0].Watches != 3) {
			t.Fatalf("round %d: %v", round, others)
		}
		if round == 0 && len(others) > 0 || len(dead) > 0 && round < 361-1 {
			t.Fatalf("round %d: %v, dead %v", round, others, dead)
		}
	}
	if _, dead = d.judge([]coordinationv1.Lease{lease("ended", 1, start, "{}")}, start.Add(forgetAfter+time.Second)); len(dead) != 1 {
		t.Errorf("dead are %v", dead)
	}
}

// TestForgedMembers reads Leases that no server would write.
func TestForgedMembers(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]bool{
		`{"watches":0}`: true, `{"watches":1000000}`: true,
		`{"watches":-1}`: false, `{"watches":9000000000000000000}`: false, `x`: false,
	} {
		l := lease("a", 1, time.Time{}, state)
		if _, ok := memberOf(&l); ok != want {
			t.Errorf("%s: read %v, want %v", state, ok, want)
		}
	}
}
