package crd

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// The priorities of custom resources: behind what is built in, in the order of
// their version names.
const (
	GroupPriority   = 1000
	VersionPriority = 100
)

// APIServices is what makes the aggregator know group versions.
type APIServices interface {
	AddAPIServiceToSync(*apiregistrationv1.APIService)
	RemoveAPIServiceToSync(name string)
}

// Registration tells the aggregator of the group versions that definitions serve,
// in a goroutine of its own. Changes of one that come together are one.
type Registration struct {
	catalog  *Catalog
	services APIServices
	complete chan struct{}
	wake     chan struct{}

	// names are the aggregator's: it keeps every name that it was ever told.
	names NameArena

	mu struct {
		sync.Mutex
		dirty map[schema.GroupVersion]bool
	}
}

// NewRegistration makes a registration. It starts nothing.
func NewRegistration(c *Catalog, services APIServices) *Registration {
	r := &Registration{catalog: c, services: services, complete: make(chan struct{}), wake: make(chan struct{}, 1)}
	r.mu.dirty = map[schema.GroupVersion]bool{}
	c.AddHandler(r.changed)
	return r
}

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

func (r *Registration) take() map[schema.GroupVersion]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	dirty := r.mu.dirty
	r.mu.dirty = map[schema.GroupVersion]bool{}
	return dirty
}

// Run registers until the context ends.
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

// Complete is closed when what there was at first is registered.
func (r *Registration) Complete() <-chan struct{} { return r.complete }

// register tells of a version, or that it is gone.
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
