package crd

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/millrace/millrace/internal/account/panics"
)

// controller keeps the status of definitions up to date, and finishes their deletion. It
// replaces five controllers of Kubernetes, which hold all definitions decoded. It works by
// rows: it decodes a definition only when the row shows that there is work to do.
type controller struct {
	server  *Server
	catalog *Catalog
	client  statusWriter
	// delay is the time between accepting the names and establishing a definition.
	delay time.Duration
	queue workqueue.TypedRateLimitingInterface[string]
	// groupLocks are taken by the hash of a group while its names are accepted. Two
	// definitions of a group must not get the same name at a time.
	groupLocks [16]sync.Mutex
	seed       maphash.Seed

	mu struct {
		sync.Mutex
		// writtenRows are rows that were written and that the catalog does not have yet, by
		// name.
		writtenRows map[string]*Definition
		states      map[types.UID]*definitionState
		// checkedSpecs has the hash of the spec (Definition.Spec) whose schemas were last
		// checked.
		checkedSpecs map[types.UID]uint64
	}
}

// definitionState is what the controller remembers of a definition. The queue gives a
// definition to one worker at a time; that worker alone uses the state.
type definitionState struct {
	// approval is the annotation that the last approval condition was written for. It is nil
	// if none was written.
	approval *string
	// acceptedSince is when the names were first found to be accepted. It is zero unless the
	// definition waits to be established.
	acceptedSince time.Time
	deletion      deletionProgress
}

const (
	// workers is the number of goroutines that process the queue.
	workers = 4
	// establishingDelay is the delay in a cluster of several servers. All of them serve a
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

// changed handles a change of a row. The catalog calls it.
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

// due reports whether there may be work to do for a row.
func (c *controller) due(d *Definition) bool {
	return !sameNames(&d.Wanted, &d.Accepted) || d.NamesAccepted && !d.Established || d.Deleting || !c.checked(d) || needsApproval(d)
}

// checked reports whether the schemas of a definition were checked, or need no check.
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

// requeueContenders queues the definitions of a group that want names which they do not
// have: names of gone may be free.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.requeueAllOtherGroupCRDs; compare at each upgrade.
func (c *controller) requeueContenders(gone *Definition) {
	for _, d := range c.catalog.Group(gone.Group) {
		if d.Name != gone.Name && !sameNames(&d.Wanted, &d.Accepted) {
			c.queue.Add(d.Name)
		}
	}
}

// stateOf returns the state of a definition, made now if there is none.
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

// run processes the queue until the context ends. It does not wait for its workers.
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

// work processes one name. It returns false once the queue is shut down.
func (c *controller) work(ctx context.Context) bool {
	name, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(name)
	if err := c.server.panics().Guard(panics.Definition, func() error { return c.sync(ctx, name) }); err != nil {
		c.server.cfg.Logger.Error("Conditions of a definition cannot be brought up to date; trying again later", "name", name, "err", err)
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

// row returns the newest row of a definition: the catalog's, or the one that the controller
// has written since.
func (c *controller) row(name string) *Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newerLocked(c.catalog.Get(name), name)
}

// newerLocked returns the row that was written for a name if it is newer than d, else d.
func (c *controller) newerLocked(d *Definition, name string) *Definition {
	if w := c.mu.writtenRows[name]; d != nil && w != nil && w.UID == d.UID && w.Revision > d.Revision {
		return w
	}
	return d
}

// sync does the work that is due for a definition.
func (c *controller) sync(ctx context.Context, name string) error {
	d := c.row(name)
	if d == nil || !c.due(d) {
		return nil
	}
	full, current, err := c.catalog.outlineWithRow(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case current.Revision < d.Revision:
		return nil // the cache lags what was written; its row will queue the name again
	}
	if err := c.updateConditions(ctx, current, full); err != nil {
		return err
	}
	if d := c.row(name); d != nil && d.Deleting {
		return c.finalize(ctx, d)
	}
	return nil
}

// updateConditions computes the names and conditions of a definition from its spec and from
// the other definitions of its group. It writes the status if that has changed.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.sync; compare at each upgrade.
func (c *controller) updateConditions(ctx context.Context, d *Definition, full *apiextensionsv1.CustomResourceDefinition) error {
	groupLock := &c.groupLocks[maphash.String(c.seed, d.Group)%uint64(len(c.groupLocks))]
	groupLock.Lock()
	defer groupLock.Unlock()
	k := c.stateOf(d)
	before := full.Status.DeepCopy()
	namesChanged := acceptNames(full, c.claims(d.Group))
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
	if namesChanged {
		c.requeueContenders(d)
	}
	return nil
}

// updateStructuralCondition checks the schemas of the newest state of a definition, since an
// outline has none. If the schemas have changed meanwhile, so has the row, and the
// definition is checked again.
func (c *controller) updateStructuralCondition(d *Definition, full *apiextensionsv1.CustomResourceDefinition) error {
	whole, err := c.catalog.Full(d.Name)
	if err != nil {
		return err
	}
	whole.Status = full.Status
	setStructuralCondition(c.server.cfg.Logger, whole)
	full.Status = whole.Status
	return nil
}

// claims returns the accepted names of a group's definitions.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.getAcceptedNamesForGroup; compare at each upgrade.
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

// write writes the status of full, and returns what was written. row is the row of full before
// that. write returns nil if the definition is gone or has changed meanwhile: the change
// queues the definition again.
func (c *controller) write(ctx context.Context, row *Definition, full *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	written, err := c.client.UpdateStatus(ctx, full, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := row.withStatus(written)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if current := c.catalog.Get(d.Name); current != nil && current.UID == d.UID && current.Revision < d.Revision {
		c.mu.writtenRows[d.Name] = d
	}
	return written, nil
}
