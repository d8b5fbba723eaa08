package crd

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// GroupPriority and VersionPriority are the priorities of custom resources. They come after
// built-in groups, and in the order of their versions' names.
const (
	GroupPriority   = 1000
	VersionPriority = 100
)

// APIServices is the aggregator's controller of automatically registered APIServices.
type APIServices interface {
	AddAPIServiceToSync(*apiregistrationv1.APIService)
	RemoveAPIServiceToSync(name string)
}

// Registration registers the group versions that definitions serve with the aggregator. It
// does so in the goroutine of Run, since registering may block. Changes of a group version
// that come together are one registration.
type Registration struct {
	catalog  *Catalog
	services APIServices
	// complete is the channel of Complete.
	complete chan struct{}
	// wake has a token if there is work for Run.
	wake chan struct{}

	// names allocates the names of APIServices, which the aggregator keeps for ever. It
	// belongs to Run's goroutine.
	names NameArena

	mu struct {
		sync.Mutex
		// dirty has the group versions to register or remove.
		dirty map[schema.GroupVersion]bool
	}
}

// NewRegistration makes a Registration. It starts nothing.
func NewRegistration(c *Catalog, services APIServices) *Registration {
	r := &Registration{catalog: c, services: services, complete: make(chan struct{}), wake: make(chan struct{}, 1)}
	r.mu.dirty = map[schema.GroupVersion]bool{}
	c.AddHandler(r.changed)
	return r
}

// changed handles a change of a row. The catalog calls it.
func (r *Registration) changed(before, after *Definition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range []*Definition{before, after} {
		if d == nil {
			continue
		}
		for _, v := range d.Versions {
			r.mu.dirty[schema.GroupVersion{Group: d.Group, Version: v.Name}] = true
		}
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns the group versions that have changed since it was last called.
func (r *Registration) take() map[schema.GroupVersion]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	dirty := r.mu.dirty
	r.mu.dirty = map[schema.GroupVersion]bool{}
	return dirty
}

// Run registers group versions until the context ends.
func (r *Registration) Run(ctx context.Context) {
	select {
	case <-r.catalog.synced:
	case <-ctx.Done():
		return
	}
	for first := true; ; first = false {
		for gv := range r.take() {
			r.register(gv)
		}
		if first {
			close(r.complete)
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// Complete returns a channel that is closed when all group versions that existed at the
// start are registered.
func (r *Registration) Complete() <-chan struct{} { return r.complete }

// register registers a group version, or removes it if no definition serves it.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/controller/crdregistration.crdRegistrationController.handleVersionUpdate; compare at each upgrade.
func (r *Registration) register(gv schema.GroupVersion) {
	name := r.names.Join(gv.Version, ".", gv.Group)
	for _, d := range r.catalog.Group(gv.Group) {
		if !d.Served(gv.Version) {
			continue
		}
		r.services.AddAPIServiceToSync(&apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: GroupPriority, VersionPriority: VersionPriority,
			},
		})
		return
	}
	r.services.RemoveAPIServiceToSync(name)
}
