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
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// deletionProgress is how far the deletion of a definition is. A round says that it is
// under way, deletes the objects, and looks until they are gone:
//
//	none ──began, objects deleted──► waiting ──no object left──► finalizer removed
//	  ▲                                │
//	  └────── failed, or too long ─────┘  the next round begins after a back-off
type deletionProgress struct {
	// waitUntil is when a wait is over, zero when there is none.
	waitUntil time.Time
	// writtenRevision is the revision of the last status written. Unless the definition has
	// changed since, the next round begins at next. pause is what a failure makes it
	// wait.
	writtenRevision int64
	nextRound       time.Time
	backoff         time.Duration
}

const (
	goneTimeout = time.Minute
	gonePeriod  = time.Second
	// A failed round is followed by another after minBackoff, then twice that, up to
	// lastPause.
	minBackoff = time.Second
	maxBackoff = time.Minute
)

func terminatingCondition(status apiextensionsv1.ConditionStatus, reason, message string) condition {
	return condition{Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: message}
}

func deletionFailedCondition(format string, err error) condition {
	return terminatingCondition(apiextensionsv1.ConditionTrue, "InstanceDeletionFailed", fmt.Sprintf(format, err))
}

// finalize lets a deleted definition go when its objects are gone.
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
	e.waitUntil, e.backoff = time.Time{}, min(max(2*e.backoff, minBackoff), maxBackoff)
	e.nextRound = time.Now().Add(e.backoff)
	if err != nil {
		apiextensionshelpers.SetCRDCondition(full, *last)
		if _, failed := c.writeDeletionStatus(ctx, e, d, full); failed != nil {
			utilruntime.HandleError(failed)
		}
		return err
	}
	apiextensionshelpers.SetCRDCondition(full, *last)
	apiextensionshelpers.CRDRemoveFinalizer(full, apiextensionsv1.CustomResourceCleanupFinalizer)
	_, err = c.writeDeletionStatus(ctx, e, d, full)
	return err
}

func (c *controller) writeDeletionStatus(ctx context.Context, e *deletionProgress, d *Definition, full *definition) (*definition, error) {
	written, err := c.write(ctx, d, full)
	if written != nil && err == nil {
		e.writtenRevision, err = revisionOf(written)
	}
	return written, err
}

// deleteObjects deletes the objects of a definition, or looks whether they are
// gone. It returns the condition to end with, and why if that is not the last
// one; nil and no error while objects are left.
func (c *controller) deleteObjects(ctx context.Context, e *deletionProgress, d *Definition, full *definition) (*condition, error) {
	verdict := func(v condition, err error) (*condition, error) { return &v, err }
	switch {
	case finalizer.OverlappingBuiltInResources()[schema.GroupResource{Group: full.Spec.Group, Resource: full.Spec.Names.Plural}]:
		return verdict(terminatingCondition(apiextensionsv1.ConditionFalse, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"), nil)
	case !apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Established):
		return verdict(terminatingCondition(apiextensionsv1.ConditionFalse, "NeverEstablished", "resource was never established"), nil)
	}
	completed := terminatingCondition(apiextensionsv1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances")
	if e.waitUntil.IsZero() && c.server.storesNone(ctx, d) {
		return &completed, nil
	}
	v, release, err := c.acquireStored(d)
	if err != nil {
		err = fmt.Errorf("unable to find a custom resource client for %s.%s: %w", full.Status.AcceptedNames.Plural, full.Spec.Group, err)
		return verdict(deletionFailedCondition("could not list instances: %v", err), err)
	}
	defer release()
	if e.waitUntil.IsZero() {
		if v, err := deleteAll(ctx, v); err != nil {
			return &v, err
		}
		e.waitUntil = time.Now().Add(goneTimeout)
	}
	left, err := anyLeft(ctx, v)
	if err == nil && left && time.Now().After(e.waitUntil) {
		err = context.DeadlineExceeded
	}
	switch {
	case err != nil:
		return verdict(terminatingCondition(apiextensionsv1.ConditionTrue, "InstanceDeletionCheck",
			fmt.Sprintf("could not confirm zero CustomResources remaining: %v", err)), err)
	case left:
		return nil, nil
	}
	return &completed, nil
}

// storesNone reports whether it is known that there is no object of a definition that
// is served. Most that are deleted have none, and need no storage opened to see that.
func (s *Server) storesNone(ctx context.Context, d *Definition) bool {
	now := s.servedDefinition(d.Name)
	if s.cfg.Stored == nil || now == nil || now.checkNames() != nil {
		return false
	}
	options, err := s.options.GetRESTOptions(now.resource("").GroupResource(), nil)
	if err != nil {
		return false
	}
	n, err := s.cfg.Stored(ctx, options.StorageConfig, options.ResourcePrefix)
	return err == nil && n == 0
}

// acquireStored returns the version that a definition's objects are stored in. Unless it
// returns an error, the caller must call release when it no longer uses the version.
func (c *controller) acquireStored(d *Definition) (v *version, release func(), err error) {
	current := c.server.acquire(d.Name)
	if current == nil {
		return nil, nil, errChanged
	}
	if v, err = current.version(current.def.StorageVersion()); err != nil {
		current.references.release()
		return nil, nil, err
	}
	return v, current.references.release, nil
}

// anyLeft reports whether there is an object.
func anyLeft(ctx context.Context, v *version) (bool, error) {
	list, err := v.registry.List(ctx, &internalversion.ListOptions{Limit: 1})
	if err != nil {
		return false, err
	}
	return meta.LenList(list) > 0, nil
}

// deleteAll deletes all objects, one namespace after another, as clients would
// but for admission. It returns what to say of an error.
func deleteAll(ctx context.Context, v *version) (condition, error) {
	// The list makes sure that the cache has all of them.
	if _, err := anyLeft(ctx, v); err != nil {
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
