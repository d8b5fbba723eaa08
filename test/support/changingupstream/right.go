package changingupstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Right is the right of one account to read everything, which is given and revoked.
type Right struct {
	// Token is that of the account.
	Token string
	name  string
	mu    struct {
		sync.Mutex
		spans []span
	}
}

// span is a time in which the account has the right, or has not.
type span struct {
	given bool
	// began is when the change to it was sent. ended is when the upstream was seen to decide by
	// the next one; it is zero before.
	began, ended time.Time
}

// Between says whether the account may have had the right for a request that was sent at a
// time and answered at another one, and whether it may not. A right that was revoked holds for
// a grace longer.
func (r *Right) Between(sent, came time.Time, grace time.Duration) (given, missing bool) {
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

// begin makes the account, without the right.
func (r *Right) begin(ctx context.Context, s *Script) (err error) {
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

// turn gives the right, or revokes it.
func (r *Right) turn(ctx context.Context, s *Script) error {
	r.mu.Lock()
	give := !r.mu.spans[len(r.mu.spans)-1].given
	r.mu.spans = append(r.mu.spans, span{given: give, began: time.Now()})
	r.mu.Unlock()
	s.tell("the right is given: %v", give)
	call, want, decided := Call{Method: http.MethodDelete, Path: bindingsPath + "/" + r.name}, http.StatusOK, http.StatusForbidden
	if give {
		body, _ := json.Marshal(binding(r.name, r.name))
		call = Call{Method: http.MethodPost, Path: bindingsPath, Content: "application/json", Body: string(body)}
		want, decided = http.StatusCreated, http.StatusOK
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
		if a.Status == decided {
			break
		}
		if err := wait(ctx, poll); err != nil {
			return fmt.Errorf("the right is not decided by: status %d: %s", a.Status, a.Message())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.spans[len(r.mu.spans)-2].ended = time.Now()
	return nil
}
