package right

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// Config configures Rights. All fields without a comment on their zero value are needed.
type Config struct {
	// RBAC decides by RBAC objects of the upstream that the replica holds. Only its
	// permissions count. If it is nil, the upstream is asked about every request, and
	// Oracle and Current have no meaning.
	RBAC authorizer.UnconditionalAuthorizer
	// Review asks the upstream, and may remember answers for some seconds, as Reviews.Rights
	// does. Oracle asks the upstream and remembers no answer.
	Review, Oracle authorizer.UnconditionalAuthorizer
	// Current reports whether the RBAC objects may decide now: they are proven to be new.
	Current func() bool
	// RecheckAfter is the time between two comparisons of one request. It must be longer than a
	// change of an RBAC object takes to the replica. Zero means 10 s.
	RecheckAfter time.Duration
	Metrics      *upstream.Metrics
	// Logger receives the end of the trust in RBAC. Nil means slog.Default.
	Logger *slog.Logger
}

// Rights decides who may read by the upstream's RBAC objects. It asks the upstream about
// users whom RBAC does not allow, because other authorizers may allow them.
//
// That is the upstream's decision only if RBAC is one of its authorizers and none before it
// denies what RBAC allows. The operator vouches for it by a flag, because no request shows
// it. As a safeguard, Run compares permissions with the upstream's own answers:
//
//	        one allowed request a second           refused at each of refutations attempts
//	trusts ──────────────────────────────► compares ───────────────────────► asks about all
//	  ▲                                       │
//	  └─── allowed, not answered, or RBAC ────┘
//	       no longer allows the request
//
// A right that was revoked meanwhile is no difference. So RBAC and the upstream are asked
// again a few times.
type Rights struct {
	cfg Config
	// sample has an allowed request, for Run to compare.
	sample chan authorizer.Attributes
	// refuted says that the upstream refuses what its RBAC objects allow.
	refuted atomic.Bool
}

const (
	// samplePeriod keeps the comparison from being a load of the upstream.
	samplePeriod = time.Second
	// refutations is how often in a row the upstream must refuse a request that RBAC allows.
	refutations         = 3
	defaultRecheckAfter = 10 * time.Second
)

// New makes Rights. It compares nothing before Run.
func New(cfg Config) *Rights {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.RecheckAfter == 0 {
		cfg.RecheckAfter = defaultRecheckAfter
	}
	return &Rights{cfg: cfg, sample: make(chan authorizer.Attributes, 1)}
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (r *Rights) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if allowed, reason := r.allows(ctx, a); allowed {
		r.cfg.Metrics.Authorized.WithLabelValues("rbac").Inc()
		select {
		case r.sample <- a:
		default: // another request is compared
		}
		return authorizer.DecisionAllow, reason, nil
	}
	r.cfg.Metrics.Authorized.WithLabelValues("review").Inc()
	return r.cfg.Review.Authorize(ctx, a)
}

// allows reports whether the RBAC objects are trusted now and allow a request. API servers
// with RBAC let administrators do everything before they look at objects.
func (r *Rights) allows(ctx context.Context, a authorizer.Attributes) (allowed bool, reason string) {
	if r.cfg.RBAC == nil || r.refuted.Load() || !r.cfg.Current() {
		return false, ""
	}
	if slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return true, ""
	}
	decision, reason, _ := r.cfg.RBAC.Authorize(ctx, a)
	return decision == authorizer.DecisionAllow, reason
}

// Run compares permissions with the upstream's answers until the context ends.
func (r *Rights) Run(ctx context.Context) {
	for !r.refuted.Load() {
		select {
		case a := <-r.sample:
			if r.differs(ctx, a) {
				r.refuted.Store(true)
				r.cfg.Logger.Error("The upstream refuses what its RBAC objects allow, so another authorizer comes before RBAC; from now on it is asked about every user: leave RBAC out of --authorization-mode",
					"user", a.GetUser().GetName(), "verb", a.GetVerb(), "resource", a.GetResource(), "namespace", a.GetNamespace(), "name", a.GetName())
			}
		case <-ctx.Done():
			return
		}
		if !sleep(ctx, samplePeriod) {
			return
		}
	}
	<-ctx.Done()
}

// differs reports whether the upstream refuses what RBAC allows, each time that both are asked.
func (r *Rights) differs(ctx context.Context, a authorizer.Attributes) bool {
	for i := range refutations {
		if i > 0 && !sleep(ctx, r.cfg.RecheckAfter) {
			return false
		}
		if decision, _, err := r.cfg.Oracle.Authorize(ctx, a); err != nil || decision == authorizer.DecisionAllow {
			return false
		}
		if allowed, _ := r.allows(ctx, a); !allowed {
			return false
		}
	}
	return true
}

// sleep waits, and returns false if the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
