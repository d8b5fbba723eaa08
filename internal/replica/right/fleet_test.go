package right_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/replica/right"
)

// fakeUpstream answers reviews after a while, and counts how many it has at once.
type fakeUpstream struct {
	takes time.Duration
	mu    struct {
		sync.Mutex
		tokens, rights load
		// ended are tokens that were good, and away says that there is no answer.
		ended map[string]bool
		away  bool
	}
}

// load counts questions of a kind: all, those of now, and those at most.
type load struct{ asked, now, most int }

func (u *fakeUpstream) begin(l *load) {
	u.mu.Lock()
	l.asked++
	l.now++
	l.most = max(l.most, l.now)
	u.mu.Unlock()
	<-time.After(u.takes)
	u.mu.Lock()
	l.now--
	u.mu.Unlock()
}

// AuthenticateToken implements authenticator.Token: a good token has the name of its user.
func (u *fakeUpstream) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	u.begin(&u.mu.tokens)
	u.mu.Lock()
	defer u.mu.Unlock()
	name, ok := strings.CutPrefix(token, "good-")
	if u.mu.away {
		return nil, false, errors.New("no answer")
	}
	if !ok || u.mu.ended[token] {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
}

// Authorize implements authorizer.UnconditionalAuthorizer: users may read what is not secret.
func (u *fakeUpstream) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	u.begin(&u.mu.rights)
	if a.GetResource() == "secrets" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "", nil
}

func (u *fakeUpstream) set(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

// loads returns what was asked about tokens and rights.
func (u *fakeUpstream) loads() (tokens, rights load) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.tokens, u.mu.rights
}

// fleetTest is a fake upstream with the Reviews in front of it.
type fleetTest struct {
	*fakeUpstream
	reviews *right.Reviews
	tokens  authenticator.Request
	rights  authorizer.UnconditionalAuthorizer
}

func newFleetTest(t *testing.T, takes time.Duration, cfg right.ReviewConfig) *fleetTest {
	t.Helper()
	u := &fakeUpstream{takes: takes}
	u.mu.ended = map[string]bool{}
	reviews := newReviews(t, cfg)
	return &fleetTest{u, reviews, reviews.Tokens(u, answersHold), reviews.Rights(u, answersHold, answersHold)}
}

// isUser reports whether a token from an address is one of a user.
func (r *fleetTest) isUser(t *testing.T, token, address string) bool {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://replica/", nil)
	if err != nil {
		t.Error(err)
		return false
	}
	req.RemoteAddr = address
	req.Header.Set("Authorization", "Bearer "+token)
	response, ok, _ := r.tokens.AuthenticateRequest(req)
	if ok && "good-"+response.User.GetName() != token {
		t.Errorf("%s is the token of %s", token, response.User.GetName())
	}
	return ok
}

// omitted returns how many questions were not asked, by reason.
func (r *fleetTest) omitted(t *testing.T) map[string]float64 {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	if err := registry.CustomRegister(r.reviews.Collector()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if n := m.GetCounter().GetValue(); n > 0 {
				counts[m.Label[1].GetValue()] += n
			}
			if n := m.GetGauge().GetValue(); n != 0 {
				t.Errorf("%s is %v afterwards", f.GetName(), n)
			}
		}
	}
	return counts
}

// TestFleetBegins starts 10,000 agents with tokens of their own at once, as after a restart of
// a replica. They have one address, or an address each. All are known in the end, and the
// upstream never has more questions than the bound.
func TestFleetBegins(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"one address": "10.0.0.1:1", "an address each": "10.1.%d.%d:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const agents = 10000
				r := newFleetTest(t, 10*time.Millisecond, right.ReviewConfig{Waiting: agents})
				var all sync.WaitGroup
				for i := range agents {
					from := address
					if strings.Contains(from, "%") {
						from = fmt.Sprintf(from, i/250, i%250)
					}
					all.Go(func() {
						if !r.isUser(t, fmt.Sprintf("good-%d", i), from) {
							t.Errorf("agent %d is not known", i)
						}
						a := named("agent")
						a.Name = fmt.Sprint(i)
						if decision, _, err := r.rights.Authorize(t.Context(), a); decision != authorizer.DecisionAllow {
							t.Errorf("agent %d: %v, %v", i, decision, err)
						}
					})
				}
				all.Wait()
				tokens, rights := r.loads()
				if tokens.asked != agents || tokens.most != 25 || rights.asked != agents || rights.most > 50 {
					t.Errorf("reviews of %d agents: tokens %+v, rights %+v", agents, tokens, rights)
				}
				if counts := r.omitted(t); len(counts) > 0 {
					t.Errorf("not asked: %v", counts)
				}
			})
		})
	}
}

// TestRandomTokens floods the replica with tokens that nobody knows, from one address or from
// many, while reviews take a while. Tokens that were good are looked at as if there were no
// flood. So are questions of new users of other addresses, unless the flood comes from
// everywhere.
func TestRandomTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		addresses int
		takes     time.Duration
		// most is how many bad tokens the upstream may be asked about in the 20 s.
		most   int
		reason string
	}{"one address": {1, time.Second, 100 + 20*5, "address"}, "many addresses": {5000, 100 * time.Millisecond, 400 + 20*50, "total"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newFleetTest(t, c.takes, right.ReviewConfig{})
				if !r.isUser(t, "good-old", "10.0.0.1:1") {
					t.Error("a good token is not known")
				}
				before, _ := r.loads()
				var all sync.WaitGroup
				for i := range 20000 {
					all.Go(func() {
						<-time.After(time.Duration(i) * time.Millisecond)
						if r.isUser(t, fmt.Sprintf("random-%d", i), fmt.Sprintf("10.9.%d.%d:1", i%c.addresses/250, i%c.addresses%250)) {
							t.Error("a random token is known")
						}
					})
				}
				<-time.After(15 * time.Second)
				began := time.Now()
				if !r.isUser(t, "good-old", "10.0.0.1:1") || time.Since(began) > c.takes {
					t.Errorf("a token that was good is not known, or waits: %v", time.Since(began))
				}
				if c.addresses == 1 && !r.isUser(t, "good-new", "10.0.0.2:1") {
					t.Error("a good token of a new user is not known")
				}
				all.Wait()
				tokens, _ := r.loads()
				if bad := tokens.asked - before.asked - 2; bad > c.most || bad < c.most/4 {
					t.Errorf("the upstream was asked about %d bad tokens, and may be about %d", bad, c.most)
				}
				if counts := r.omitted(t); counts[c.reason] < 15000 {
					t.Errorf("not asked: %v", counts)
				}
			})
		})
	}
}

// TestRandomNames lets a user ask for 20,000 objects, to which it has no right, at once.
// Another user's review is answered after the one that it waits for.
func TestRandomNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFleetTest(t, time.Second, right.ReviewConfig{})
		var all sync.WaitGroup
		for i := range 20000 {
			a := named("curious")
			a.Resource, a.Name = "secrets", fmt.Sprint(i)
			all.Go(func() {
				if decision, _, _ := r.rights.Authorize(t.Context(), a); decision == authorizer.DecisionAllow {
					t.Error("a right to read secrets")
				}
			})
		}
		synctest.Wait()
		for i := range 10 {
			a := named("honest")
			a.Name = fmt.Sprint(i)
			began := time.Now()
			if decision, _, err := r.rights.Authorize(t.Context(), a); decision != authorizer.DecisionAllow || time.Since(began) > 2*time.Second {
				t.Errorf("another user after %v: %v, %v", time.Since(began), decision, err)
			}
		}
		all.Wait()
		if _, rights := r.loads(); rights.most > 25+1 {
			t.Errorf("the user had %d reviews at once", rights.most)
		}
		if counts := r.omitted(t); counts["queue"] < 20000-8192-25 || counts["time"] < 7000 {
			t.Errorf("not asked: %v", counts)
		}
	})
}
