package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/replica/right"
	"github.com/millrace/millrace/internal/replica/upstream"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/source"
)

const (
	// minRightsTTL leaves a proof the time of some round trips.
	minRightsTTL = time.Second
	// proofsPerTTL is how often RBAC objects are proven within the time for which a proof
	// holds. One that is late or fails does not end the trust.
	proofsPerTTL = 4
	// maxRightsSilence is the time without an event or bookmark after which the watch of an
	// RBAC object's resource is no longer trusted. API servers send a bookmark each minute.
	maxRightsSilence = 90 * time.Second
)

// rightsProof keeps a proof of how new the RBAC objects are that the replica holds.
type rightsProof struct {
	// prove returns nil if the objects are as new as those of the upstream were when the
	// call began.
	prove func(context.Context) error
	// holds is how long a proof holds.
	holds time.Duration
	// provenAt is when the newest proof began; nil before the first one.
	provenAt atomic.Pointer[time.Time]
}

// current reports whether a proof holds.
func (p *rightsProof) current() bool {
	at := p.provenAt.Load()
	return at != nil && time.Since(*at) < p.holds
}

// run proves the objects again and again until the context ends.
func (p *rightsProof) run(ctx context.Context) {
	ticker := time.NewTicker(p.holds / proofsPerTTL)
	defer ticker.Stop()
	for {
		began := time.Now()
		proving, cancel := context.WithTimeout(ctx, p.holds)
		if p.prove(proving) == nil {
			p.provenAt.Store(&began)
		}
		cancel()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// newHandler completes the configuration of what answers requests, and makes it. It sets
// runRights.
func (r *Replica) newHandler(ctx context.Context, tier *tiermount.ReadTier, cfg handler.Config) (http.Handler, error) {
	var err error
	if cfg.Authorizer, r.runRights, err = r.newAuthorizer(ctx, tier, cfg.Metrics); err != nil {
		return nil, err
	}
	cfg.Reads, cfg.Follow, cfg.CutOffSince = tier.Tier.Wrap, r.follow, r.cutOffSince
	cfg.ReadsOnly, cfg.Budgets = r.options.ReadsOnly, r.budgets
	return handler.New(cfg), nil
}

// adviseDelegation logs what is missing if the replica may not ask the upstream about users
// and rights. The replica starts all the same: what it passes on is answered.
func (r *Replica) adviseDelegation(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	command, err := r.upstream.AdviseDelegation(ctx)
	switch {
	case err != nil:
		r.logger.Warn("Cannot ask the upstream for the rights of this replica", "err", err)
	case command != "":
		r.logger.Warn("This replica may not ask the upstream who its users are and what they may read, so it answers nobody and passes all requests on: run this as an administrator of the cluster", "command", command)
	}
}

// adviceTimeout bounds the questions of adviseDelegation.
const adviceTimeout = 10 * time.Second

// newAuthorizer returns what decides about rights, and a function that must run beside the
// server.
func (r *Replica) newAuthorizer(ctx context.Context, tier *tiermount.ReadTier, counters *upstream.Metrics) (authorizer.UnconditionalAuthorizer, func(context.Context), error) {
	review, nothing := r.server.Authorizer(), func(context.Context) {}
	byReview := right.New(right.Config{Review: review, Metrics: counters, Panics: r.backends.Cache.Panics, Logger: r.logger})
	if !r.options.usesRBAC() || r.isVerbatim {
		return byReview, nothing, nil
	}
	proof := &rightsProof{prove: func(ctx context.Context) error { return proveStoredRBAC(ctx, tier) }, holds: r.options.Kube.RightsTTL()}
	if r.api != nil {
		may, err := r.followRBAC(ctx)
		if err != nil || !may {
			return byReview, nothing, err
		}
		proof.prove = func(ctx context.Context) error { return proveFollowedRBAC(ctx, r.api) }
	}
	oracle, err := r.upstream.Oracle()
	if err != nil {
		return nil, nothing, err
	}
	rights := right.New(right.Config{
		RBAC: kube.NewReplicatedRBAC(tier.Decorator.Store), Review: review, Oracle: oracle,
		// A newer version of RBAC objects could narrow what this one takes for a right.
		Current: func() bool { return proof.current() && r.upstream.Skew() == 0 },
		Metrics: counters, Panics: r.backends.Cache.Panics, Logger: r.logger,
	})
	return rights, func(ctx context.Context) {
		defer lifetime.RunUntilStopped(ctx, rights.Run)()
		proof.run(ctx)
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
			r.logger.Warn("This replica may not follow RBAC objects, and asks the upstream about each user and object: let the user of --kubeconfig list and watch them, and start again", "resource", gr.String())
			return false, nil
		}
	}
	for _, gr := range kube.RBACResources() {
		gvr, served := r.upstream.Preferred(gr)
		if _, builtIn := r.builtIn[gvr]; !served || !builtIn {
			return false, fmt.Errorf("the upstream does not serve %s in a version that this program knows: leave RBAC out of --authorization-mode", gr)
		}
		r.followBuiltIn(gvr, false)
	}
	return true, nil
}

// proveStoredRBAC waits until the cache has every change of RBAC objects that etcd had when the
// call began.
func proveStoredRBAC(ctx context.Context, r *tiermount.ReadTier) error {
	for _, gr := range kube.RBACResources() {
		stored := r.Decorator.Store(gr)
		if stored == nil {
			return fmt.Errorf("%s are not stored", gr)
		}
		if err := stored.WaitConsistent(ctx); err != nil {
			return err
		}
	}
	return nil
}

// proveFollowedRBAC returns nil if the upstream answers, and the watches of RBAC objects are alive.
// The API server decides by watches of its own, which are no newer. It has no way to tell
// that a watch of a quiet resource is complete.
func proveFollowedRBAC(ctx context.Context, s *source.API) error {
	var last *source.ResourceFeed
	for _, gr := range kube.RBACResources() {
		last = s.FeedOf(gr)
		if last == nil {
			return source.ErrNotFollowed
		}
		if err := last.Healthy(); err != nil {
			return err
		}
		if time.Since(last.Load().HeardAt()) > maxRightsSilence {
			return errors.New("a watch of RBAC objects is silent")
		}
	}
	_, err := last.Revision(ctx)
	return err
}
