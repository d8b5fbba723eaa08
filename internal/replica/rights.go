package replica

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/replica/right"
	"github.com/millrace/millrace/internal/replica/upstream"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/read"
)

// newHandler completes the configuration of what answers requests, and makes it. It sets
// runRights.
func (r *Replica) newHandler(ctx context.Context, tier *tiermount.ReadTier, cfg handler.Config) (http.Handler, error) {
	var err error
	if cfg.Authorizer, r.runRights, err = r.newAuthorizer(ctx, tier, cfg.Metrics); err != nil {
		return nil, err
	}
	cfg.Reads, cfg.Follow, cfg.CutOffSince = tier.Tier.Wrap, r.policy.Read, r.policy.CutOffSince(tier.Backends.BrokenSince)
	cfg.MayShare, cfg.PassOn, cfg.Accounted = r.policy.MayShare, tier.Tier.PassOn, read.Accounted
	cfg.Shared = func(req *http.Request) {
		cfg.Metrics.Shared.Inc()
		read.NoteShared(req)
	}
	if wasRestarted() {
		cfg.Ready = r.ready.Load
	}
	cfg.ReadsOnly, cfg.Budgets = r.options.ReadsOnly, r.budgets
	return handler.New(cfg), nil
}

// adviseDelegation logs what is missing if the replica may not ask the upstream about users
// and rights. The replica starts all the same: the upstream answers what it passes on.
func (r *Replica) adviseDelegation(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	command, err := r.upstream.AdviseDelegation(ctx)
	switch {
	case err != nil:
		r.logger.Warn("Cannot ask the upstream for the rights of this replica", "err", err)
	case command != "":
		r.options.Warn(r.out, r.logger, "this replica may not ask the upstream who its users are and what they may read, so it answers nobody and passes all requests on. As an administrator of the cluster run: "+command)
	}
}

// adviceTimeout bounds the questions of adviseDelegation.
const adviceTimeout = 10 * time.Second

// newAuthorizer returns what decides about rights, and a function that must run beside the
// server.
func (r *Replica) newAuthorizer(ctx context.Context, tier *tiermount.ReadTier, counters *upstream.Metrics) (authorizer.UnconditionalAuthorizer, func(context.Context), error) {
	review, nothing := r.server.Authorizer(), func(context.Context) {}
	byReview := right.New(right.Config{Review: review, Metrics: counters, Logger: r.logger})
	if !r.options.usesRBAC() || r.policy.IsVerbatim() {
		return byReview, nothing, nil
	}
	proof := &right.Proof{Prove: func(ctx context.Context) error { return proveRBAC(ctx, tier) }, Holds: r.options.Kube.RightsTTL()}
	if r.resources != nil {
		may, err := r.followRBAC(ctx)
		if err != nil || !may {
			return byReview, nothing, err
		}
	}
	oracle, err := r.upstream.Oracle()
	if err != nil {
		return nil, nothing, err
	}
	rights := right.New(right.Config{
		RBAC: kube.NewReplicatedRBAC(tier.Decorator.Store), Review: review, Oracle: oracle,
		// A newer version of RBAC objects could narrow what this one takes for a right.
		Current: func() bool { return proof.Current() && r.upstream.Skew() == 0 },
		Metrics: counters, Logger: r.logger,
	})
	return rights, func(ctx context.Context) {
		defer lifetime.Start(ctx, rights.Run)()
		proof.Run(ctx)
	}, nil
}

// followRBAC follows the RBAC objects of an upstream's API. It returns false if the replica
// may not.
func (r *Replica) followRBAC(ctx context.Context) (bool, error) {
	for _, gr := range kube.RBACResources() {
		may, err := r.upstream.MayFollow(ctx, gr)
		if err != nil {
			return false, err
		}
		if !may {
			r.options.Warn(r.out, r.logger, fmt.Sprintf("this replica may not follow RBAC objects (%s), and asks the upstream about each user and object: let the user of --kubeconfig list and watch them, and start again", gr))
			return false, nil
		}
	}
	for _, gr := range kube.RBACResources() {
		if !r.policy.FollowNeeded(gr) {
			return false, fmt.Errorf("the upstream does not serve %s in a version that this program knows: leave RBAC out of --authorization-mode", gr)
		}
	}
	return true, nil
}

// proveRBAC waits until the cache has every change of RBAC objects that the upstream had when
// the call began.
func proveRBAC(ctx context.Context, r *tiermount.ReadTier) error {
	proofs, ctx := errgroup.WithContext(ctx)
	for _, gr := range kube.RBACResources() {
		stored := r.Decorator.Store(gr)
		if stored == nil {
			return fmt.Errorf("%s are not stored", gr)
		}
		proofs.Go(func() error { return stored.WaitConsistent(ctx) })
	}
	return proofs.Wait()
}
