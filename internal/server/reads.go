package server

import (
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server/healthz"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/kube"
	"github.com/millrace/millrace/internal/read"
	"github.com/millrace/millrace/internal/storage"
)

// readTier is the storage and the handler that take Kubernetes' place.
type readTier struct {
	backends  *backends
	decorator *storage.Decorator
	tier      *read.Tier
	budget    *encode.Budget
}

func newReadTier(b *backends, budget *encode.Budget) (*readTier, error) {
	metrics, err := read.NewMetrics(legacyregistry.Register)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if err := legacyregistry.CustomRegister(&collector{backends: b, budget: budget}); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &readTier{
		backends:  b,
		decorator: &storage.Decorator{Backend: b.get, Irregular: kube.Irregular, Uncached: kube.Uncached, Scan: kube.Scan},
		tier:      read.NewTier(metrics),
		budget:    budget,
	}, nil
}

func (r *readTier) hooks() kube.Hooks {
	return kube.Hooks{
		Storage: r.decorator.Decorate,
		Stored:  r.decorator.Store,
		Reads:   r.tier.Wrap,
		Ready: []healthz.HealthChecker{healthz.NamedCheck("millrace-feed", func(*http.Request) error {
			return r.backends.healthy()
		})},
	}
}

// serve gives the tier every installed resource that is stored.
func (r *readTier) serve(routes []kube.Route) error {
	compress := utilfeature.DefaultFeatureGate.Enabled(features.APIResponseCompression)
	var served []*read.Route
	for _, route := range routes {
		s := r.decorator.Store(route.Stored)
		if s == nil {
			continue
		}
		made, err := read.NewRoute(read.RouteConfig{
			Resource: route.Resource, Kind: route.Kind, Namespaced: route.Namespaced,
			Gets: route.Gets, Lists: route.Lists, Serializer: route.Serializer,
			Source: s, Convertor: route.Convertor, Table: route.Table, Budget: r.budget,
			Warning: route.Warning, RemovedRelease: route.RemovedRelease, Compress: compress,
		})
		if err != nil {
			return err
		}
		served = append(served, made)
	}
	r.tier.Serve(served)
	return nil
}
