package changingupstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Right is the right of one account to read everything. A script gives and revokes it.
type Right struct {
	// Token belongs to the account.
	Token string
	name  string
	mu    struct {
		sync.Mutex
		spans []span
	}
}

// span is a time in which the account has the right, or does not have it.
type span struct {
	given bool
	// began is the time when the change to this state was sent. ended is the time when the
	// upstream first decided by the next state, zero before.
	began, ended time.Time
}

// PossibleStates reports whether the account may have had the right for a request, and whether
// it may not have had it. sent and came are the times of the request and its answer. A revoked
// right holds for a grace longer.
func (r *Right) PossibleStates(sent, came time.Time, grace time.Duration) (given, missing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.mu.spans {
		end := s.ended
		if s.given {
			end = end.Add(grace)
		}
		if s.began.After(came) || !s.ended.IsZero() && end.Before(sent) {
			continue
		}
		given, missing = given || s.given, missing || !s.given
	}
	return given, missing
}

// makeAccount creates the account, without the right.
func (r *Right) makeAccount(ctx context.Context, s *Script) (err error) {
	r.name = fmt.Sprintf("living-%d", s.Seed)
	r.mu.spans = []span{{began: time.Now()}}
	if r.Token, err = serviceAccount(ctx, s.Config(), r.name, ""); err != nil {
		return err
	}
	role := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},
		"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["get","list","watch"]}]}`, r.name)
	a := s.Send(ctx, Call{Method: http.MethodPost, Path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", Content: "application/json", Body: role})
	if a.Status != http.StatusCreated {
		return fmt.Errorf("make a role: status %d: %s", a.Status, a.Message())
	}
	return nil
}

const bindingsPath = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"

// toggle gives the right or revokes it, and waits until the upstream decides so.
func (r *Right) toggle(ctx context.Context, s *Script) error {
	r.mu.Lock()
	give := !r.mu.spans[len(r.mu.spans)-1].given
	r.mu.spans = append(r.mu.spans, span{given: give, began: time.Now()})
	r.mu.Unlock()
	s.record("the right is given: %v", give)
	call := Call{Method: http.MethodDelete, Path: bindingsPath + "/" + r.name}
	want := http.StatusOK            // of the call
	decision := http.StatusForbidden // of the account's reads afterwards
	if give {
		body, _ := json.Marshal(binding(r.name, r.name))
		call = Call{Method: http.MethodPost, Path: bindingsPath, Content: "application/json", Body: string(body)}
		want = http.StatusCreated
		decision = http.StatusOK
	}
	if a := s.Send(ctx, call); a.Status != want {
		return fmt.Errorf("change a binding: status %d: %s", a.Status, a.Message())
	}
	client := NewClient(s.Server, r.Token)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, takeUpTimeout)
	defer cancel()
	for {
		a := client.Send(ctx, Get("/api/v1/namespaces/default/configmaps"))
		if a.Status == decision {
			break
		}
		if err := wait(ctx, poll); err != nil {
			return fmt.Errorf("the right has no effect: status %d: %s", a.Status, a.Message())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.spans[len(r.mu.spans)-2].ended = time.Now()
	return nil
}
