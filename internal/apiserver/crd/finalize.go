package crd

import (
	"context"
	"fmt"
	"strings"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// deletionProgress is the progress of a definition's deletion. A round sets the condition
// Terminating, deletes the objects, and waits until they are gone:
//
//	none ──began, objects deleted──► waiting ──no object left──► finalizer removed
//	  ▲                                │
//	  └────── failed, or too long ─────┘  the next round begins after a back-off
//
// A request that was under way when the definition was deleted may create an object after
// the round's deletions. Kubernetes leaves it to the next round, a minute later, or in etcd
// when no definition is left. Here a round waits for such requests, and the next look
// deletes all objects once more.
type deletionProgress struct {
	// waitUntil is when waiting for the objects times out, and zero before they are deleted.
	waitUntil time.Time
	// missed says that the last look found objects that are not being deleted.
	missed bool
	// writtenRevision is the revision of the last status that was written.
	writtenRevision int64
	// nextRound is when the next round begins, unless the definition has changed since.
	nextRound time.Time
	// backoff is the time between the last two rounds.
	backoff time.Duration
}

const (
	// goneTimeout bounds the wait for deleted objects to be gone, and gonePeriod is the time
	// between two looks.
	goneTimeout = time.Minute
	gonePeriod  = time.Second
	// minBackoff is the time after the first failed round. It doubles up to maxBackoff.
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// terminatingCondition returns the condition Terminating.
func terminatingCondition(status apiextensionsv1.ConditionStatus, reason, message string) condition {
	return condition{Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: message}
}

func deletionFailedCondition(format string, err error) condition {
	return terminatingCondition(apiextensionsv1.ConditionTrue, "InstanceDeletionFailed", fmt.Sprintf(format, err))
}

// finalize deletes the objects of a deleted definition, and removes its finalizer when they
// are gone.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/finalizer.CRDFinalizer.sync; compare at each upgrade.
func (c *controller) finalize(ctx context.Context, d *Definition) error {
	e := &c.stateOf(d).deletion
	if wait := time.Until(e.nextRound); e.waitUntil.IsZero() && d.Revision <= e.writtenRevision && wait > 0 {
		c.queue.AddAfter(d.Name, wait)
		return nil
	}
	full, d, err := c.catalog.outlineWithRow(d.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	if full.DeletionTimestamp == nil || !apiextensionshelpers.CRDHasFinalizer(full, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return nil
	}
	if e.waitUntil.IsZero() {
		apiextensionshelpers.SetCRDCondition(full, terminatingCondition(apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress"))
		if full, err = c.writeDeletionStatus(ctx, e, d, full); full == nil || err != nil {
			return err
		}
	}
	last, err := c.deleteObjects(ctx, e, d, full)
	if last == nil && err == nil {
		c.queue.AddAfter(d.Name, gonePeriod)
		return nil
	}
	e.missed = false
	e.waitUntil, e.backoff = time.Time{}, min(max(2*e.backoff, minBackoff), maxBackoff)
	e.nextRound = time.Now().Add(e.backoff)
	if err != nil {
		apiextensionshelpers.SetCRDCondition(full, *last)
		if _, failed := c.writeDeletionStatus(ctx, e, d, full); failed != nil {
			c.server.cfg.Logger.Error("Deletion status of a definition cannot be written", "name", d.Name, "err", failed)
		}
		return err
	}
	apiextensionshelpers.SetCRDCondition(full, *last)
	apiextensionshelpers.CRDRemoveFinalizer(full, apiextensionsv1.CustomResourceCleanupFinalizer)
	_, err = c.writeDeletionStatus(ctx, e, d, full)
	return err
}

// writeDeletionStatus writes the status, and sets e.writtenRevision. It returns what was
// written, or nil as controller.write does.
func (c *controller) writeDeletionStatus(ctx context.Context, e *deletionProgress, d *Definition, full *fullDefinition) (*fullDefinition, error) {
	written, err := c.write(ctx, d, full)
	if written != nil && err == nil {
		e.writtenRevision, err = revisionOf(written)
	}
	return written, err
}

// deleteObjects deletes the objects of a definition in the first call of a round, and again
// while e.missed is set. Then it checks whether they are gone. It returns nil while objects
// are left, and afterwards the condition with which the round ends. With an error the deletion
// needs another round.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/finalizer.CRDFinalizer.deleteInstances; compare at each upgrade.
func (c *controller) deleteObjects(ctx context.Context, e *deletionProgress, d *Definition, full *fullDefinition) (*condition, error) {
	result := func(v condition, err error) (*condition, error) { return &v, err }
	switch {
	case finalizer.OverlappingBuiltInResources()[schema.GroupResource{Group: full.Spec.Group, Resource: full.Spec.Names.Plural}]:
		return result(terminatingCondition(apiextensionsv1.ConditionFalse, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"), nil)
	case !apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Established):
		return result(terminatingCondition(apiextensionsv1.ConditionFalse, "NeverEstablished", "resource was never established"), nil)
	}
	completed := terminatingCondition(apiextensionsv1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances")
	creating := c.server.creating(d)
	if e.waitUntil.IsZero() && !creating && c.server.storesNone(ctx, d) {
		return &completed, nil
	}
	v, u, err := c.useStored(ctx, d)
	if err != nil {
		err = fmt.Errorf("unable to find a custom resource client for %s.%s: %w", full.Status.AcceptedNames.Plural, full.Spec.Group, err)
		return result(deletionFailedCondition("could not list instances: %v", err), err)
	}
	defer u.release()
	if e.waitUntil.IsZero() || e.missed {
		if v, err := deleteAll(ctx, v); err != nil {
			return &v, err
		}
	}
	if e.waitUntil.IsZero() {
		e.waitUntil = time.Now().Add(goneTimeout)
	}
	var left bool
	left, e.missed, err = look(ctx, v)
	left = left || creating
	if err == nil && left && time.Now().After(e.waitUntil) {
		err = context.DeadlineExceeded
	}
	switch {
	case err != nil:
		return result(terminatingCondition(apiextensionsv1.ConditionTrue, "InstanceDeletionCheck",
			fmt.Sprintf("could not confirm zero CustomResources remaining: %v", err)), err)
	case left:
		return nil, nil
	}
	return &completed, nil
}

// storesNone reports whether etcd has no object of a definition, as far as that can be
// found out without opening its storage. Most deleted definitions have no objects.
func (s *Server) storesNone(ctx context.Context, d *Definition) bool {
	current := s.servedDefinition(d.Name)
	if s.cfg.Stored == nil || current == nil || current.checkNames() != nil {
		return false
	}
	options, err := s.options.GetRESTOptions(current.resource("").GroupResource(), nil)
	if err != nil {
		return false
	}
	n, err := s.cfg.Stored(ctx, options.StorageConfig, options.ResourcePrefix)
	return err == nil && n == 0
}

// useStored returns the version that a definition's objects are stored in. Unless it returns
// an error, the caller must release the usage.
func (c *controller) useStored(ctx context.Context, d *Definition) (*servedVersion, *usage, error) {
	var stored *servedVersion
	u, err := c.server.use(ctx, d.Name, func(u *usage) (err error) {
		if u.row.UID != d.UID {
			return errNotServed // another definition of the name, whose objects stay
		}
		stored, err = u.served.version(u.served.def.StorageVersion())
		return err
	})
	return stored, u, err
}

// lookedAt is the number of objects that look reads at most. Objects with finalizers may
// be many, and stay long.
const lookedAt = 100

// look reports whether there is any object (left), and whether one of the first lookedAt objects
// is not being deleted (missed).
func look(ctx context.Context, v *servedVersion) (left, missed bool, err error) {
	list, err := v.registry.List(ctx, &internalversion.ListOptions{Limit: lookedAt})
	if err != nil {
		return false, false, err
	}
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		o, err := meta.Accessor(obj)
		missed = missed || err == nil && o.GetDeletionTimestamp() == nil
		return err
	})
	return meta.LenList(list) > 0, missed, err
}

// deleteAll deletes all objects, one namespace after another, as clients would, but without
// admission. With an error it returns the condition for it.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/finalizer.CRDFinalizer.deleteInstances; compare at each upgrade.
func deleteAll(ctx context.Context, v *servedVersion) (condition, error) {
	// A consistent LIST waits until the cache has all objects.
	if _, _, err := look(ctx, v); err != nil {
		return deletionFailedCondition("could not list instances: %v", err), err
	}
	namespaces := map[string]bool{}
	for e := range v.store.Resource().Snapshot().All("", "") {
		namespace := ""
		if v.registry.CreateStrategy.NamespaceScoped() {
			namespace, _, _ = strings.Cut(e.Key, "/")
		}
		namespaces[namespace] = true
	}
	var errs []error
	for namespace := range namespaces {
		if _, err := v.registry.DeleteCollection(request.WithNamespace(ctx, namespace), rest.ValidateAllObjectFunc, nil, nil); err != nil {
			errs = append(errs, err)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return deletionFailedCondition("could not issue all deletes: %v", err), err
	}
	return condition{}, nil
}
