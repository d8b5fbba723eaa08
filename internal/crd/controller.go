package crd

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/workqueue"
)

// controller keeps the status of definitions, and lets those go that are deleted.
// It does what upstream has five controllers for. It works by rows: a definition
// is decoded when something about it has to be found out or written.
type controller struct {
	server  *Server
	catalog *Catalog
	client  statusWriter
	// delay is how long names are accepted before a definition is established.
	delay time.Duration
	queue workqueue.TypedRateLimitingInterface[string]
	// groupLocks is held, by group, while names are accepted.
	groupLocks [16]sync.Mutex
	seed       maphash.Seed

	mu struct {
		sync.Mutex
		// writtenRows are rows that the catalog has yet to show.
		writtenRows map[string]*Definition
		// states is what the controller remembers of definitions.
		states map[types.UID]*definitionState
		// checkedSpecs are the specs whose schemas were checked for being structural.
		checkedSpecs map[types.UID]uint64
	}
}

// definitionState is what the controller remembers of a definition. Only the worker that
// has it changes it.
type definitionState struct {
	// approval is the annotation that a condition was written for.
	approval *string
	// acceptedSince is when the names were first seen to be accepted.
	acceptedSince time.Time
	deletion      deletionProgress
}

const (
	// workers do what is due. None waits for anything but its own requests.
	workers = 4
	// establishingDelay is what servers of a cluster wait, so that all serve a
	// definition before one says that it is established.
	establishingDelay = 5 * time.Second
)

func newController(s *Server, definitions statusWriter, servers int) *controller {
	c := &controller{server: s, catalog: s.catalog, client: definitions, seed: maphash.MakeSeed()}
	if servers > 1 {
		c.delay = establishingDelay
	}
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "crd_conditions"})
	c.mu.writtenRows, c.mu.states, c.mu.checkedSpecs = map[string]*Definition{}, map[types.UID]*definitionState{}, map[types.UID]uint64{}
	s.catalog.AddHandler(c.changed)
	return c
}

// changed follows the catalog.
func (c *controller) changed(before, after *Definition) {
	d := after
	if d == nil {
		d = before
	}
	c.mu.Lock()
	if w := c.mu.writtenRows[d.Name]; w != nil && (after == nil || w.UID != after.UID || w.Revision <= after.Revision) {
		delete(c.mu.writtenRows, d.Name)
	}
	if after == nil {
		delete(c.mu.states, before.UID)
		delete(c.mu.checkedSpecs, before.UID)
	}
	c.mu.Unlock()
	if after == nil {
		c.requeueContenders(d)
		return
	}
	if c.due(after) {
		c.queue.Add(d.Name)
	}
}

// due reports whether a row may have something to be done.
func (c *controller) due(d *Definition) bool {
	return !sameNames(&d.Wanted, &d.Accepted) || d.NamesAccepted && !d.Established || d.Deleting || !c.checked(d) || needsApproval(d)
}

// checked reports whether a definition's schemas have been looked at, or need not be.
func (c *controller) checked(d *Definition) bool {
	if !d.Unchecked {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	spec, ok := c.mu.checkedSpecs[d.UID]
	return ok && spec == d.Spec
}

func (c *controller) setChecked(d *Definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.checkedSpecs[d.UID] = d.Spec
}

// requeueContenders lets those look again that want a name of the group.
func (c *controller) requeueContenders(gone *Definition) {
	for _, d := range c.catalog.Group(gone.Group) {
		if d.Name != gone.Name && !sameNames(&d.Wanted, &d.Accepted) {
			c.queue.Add(d.Name)
		}
	}
}

func (c *controller) stateOf(d *Definition) *definitionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.mu.states[d.UID]
	if k == nil {
		k = &definitionState{}
		c.mu.states[d.UID] = k
	}
	return k
}

// run works until the context ends.
func (c *controller) run(ctx context.Context) {
	defer c.queue.ShutDown()
	select {
	case <-c.catalog.synced:
	case <-ctx.Done():
		return
	}
	for range workers {
		go func() {
			for c.work(ctx) {
			}
		}()
	}
	<-ctx.Done()
}

func (c *controller) work(ctx context.Context) bool {
	defer utilruntime.HandleCrash()
	name, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(name)
	if err := c.sync(ctx, name); err != nil {
		utilruntime.HandleError(fmt.Errorf("keep conditions of definition %s: %w", name, err))
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

// row is the newest that is known of a definition: the catalog's, or what was
// written since.
func (c *controller) row(name string) *Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newerLocked(c.catalog.Get(name), name)
}

func (c *controller) newerLocked(d *Definition, name string) *Definition {
	if w := c.mu.writtenRows[name]; d != nil && w != nil && w.UID == d.UID && w.Revision > d.Revision {
		return w
	}
	return d
}

// sync does what is due.
func (c *controller) sync(ctx context.Context, name string) error {
	d := c.row(name)
	if d == nil || !c.due(d) {
		return nil
	}
	full, now, err := c.catalog.outlineWithRow(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case now.Revision < d.Revision:
		return nil // the cache is behind what was written, and will come to it
	}
	if err := c.updateConditions(ctx, now, full); err != nil {
		return err
	}
	if d := c.row(name); d != nil && d.Deleting {
		return c.finalize(ctx, d)
	}
	return nil
}

// updateConditions writes what the definition's spec and its group say about it.
func (c *controller) updateConditions(ctx context.Context, d *Definition, full *apiextensionsv1.CustomResourceDefinition) error {
	naming := &c.groupLocks[maphash.String(c.seed, d.Group)%uint64(len(c.groupLocks))]
	naming.Lock()
	defer naming.Unlock()
	k := c.stateOf(d)
	before := full.Status.DeepCopy()
	named := acceptNames(full, c.claims(d.Group))
	c.establish(k, full)
	approval := setApprovalCondition(k, full)
	if !c.checked(d) {
		if err := c.updateStructuralCondition(d, full); err != nil {
			return err
		}
	}
	if !apiequality.Semantic.DeepEqual(*before, full.Status) {
		written, err := c.write(ctx, d, full)
		if err != nil || written == nil {
			return err
		}
	}
	c.setChecked(d)
	if approval != nil {
		k.approval = approval
	}
	if named {
		c.requeueContenders(d)
	}
	return nil
}

// updateStructuralCondition looks at the schemas, which an outline does not have. If they have
// changed since, so has the row that they will be looked at for again.
func (c *controller) updateStructuralCondition(d *Definition, full *apiextensionsv1.CustomResourceDefinition) error {
	whole, err := c.catalog.Full(d.Name)
	if err != nil {
		return err
	}
	whole.Status = full.Status
	setStructuralCondition(whole)
	full.Status = whole.Status
	return nil
}

// claims are the names that the definitions of a group have.
func (c *controller) claims(group string) claims {
	rows := c.catalog.Group(group)
	c.mu.Lock()
	defer c.mu.Unlock()
	claimed := claims{resources: map[string]bool{}, kinds: map[string]bool{}}
	for _, d := range rows {
		claimed.add(&c.newerLocked(d, d.Name).Accepted)
	}
	return claimed
}

// write writes the status of a definition that a row is of. It returns nil if the
// definition is gone, or has changed meanwhile: its change will be heard of.
func (c *controller) write(ctx context.Context, of *Definition, full *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	written, err := c.client.UpdateStatus(ctx, full, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := of.withStatus(written)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.catalog.Get(d.Name); now != nil && now.UID == d.UID && now.Revision < d.Revision {
		c.mu.writtenRows[d.Name] = d
	}
	return written, nil
}
