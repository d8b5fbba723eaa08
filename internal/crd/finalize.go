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
	// until is when a wait is over, zero when there is none.
	until time.Time
	// wrote is the revision of the last status written. Unless the definition has
	// changed since, the next round begins at next. pause is what a failure makes it
	// wait.
	wrote int64
	next  time.Time
	pause time.Duration
}

const (
	goneTimeout = time.Minute
	gonePeriod  = time.Second
	// A failed round is followed by another after firstPause, then twice that, up to
	// lastPause.
	firstPause = time.Second
	lastPause  = time.Minute
)

func terminating(status apiextensionsv1.ConditionStatus, reason, message string) condition {
	return condition{Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: message}
}

func failedDeletion(format string, err error) condition {
	return terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionFailed", fmt.Sprintf(format, err))
}

// finalize lets a deleted definition go when its objects are gone.
func (c *controller) finalize(ctx context.Context, d *Definition) error {
	e := &c.knownOf(d).ending
	if wait := time.Until(e.next); e.until.IsZero() && d.Revision <= e.wrote && wait > 0 {
		c.queue.AddAfter(d.Name, wait)
		return nil
	}
	full, d, err := c.catalog.outline(d.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	if full.DeletionTimestamp == nil || !apiextensionshelpers.CRDHasFinalizer(full, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return nil
	}
	if e.until.IsZero() {
		apiextensionshelpers.SetCRDCondition(full, terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress"))
		if full, err = c.writeEnding(ctx, e, d, full); full == nil || err != nil {
			return err
		}
	}
	last, err := c.deleteObjects(ctx, e, d, full)
	if last == nil && err == nil {
		c.queue.AddAfter(d.Name, gonePeriod)
		return nil
	}
	e.until, e.pause = time.Time{}, min(max(2*e.pause, firstPause), lastPause)
	e.next = time.Now().Add(e.pause)
	if err != nil {
		apiextensionshelpers.SetCRDCondition(full, *last)
		if _, failed := c.writeEnding(ctx, e, d, full); failed != nil {
			utilruntime.HandleError(failed)
		}
		return err
	}
	apiextensionshelpers.SetCRDCondition(full, *last)
	apiextensionshelpers.CRDRemoveFinalizer(full, apiextensionsv1.CustomResourceCleanupFinalizer)
	_, err = c.writeEnding(ctx, e, d, full)
	return err
}

func (c *controller) writeEnding(ctx context.Context, e *deletionProgress, d *Definition, full *definition) (*definition, error) {
	written, err := c.write(ctx, d, full)
	if written != nil && err == nil {
		e.wrote, err = revisionOf(written)
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
		return verdict(terminating(apiextensionsv1.ConditionFalse, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"), nil)
	case !apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Established):
		return verdict(terminating(apiextensionsv1.ConditionFalse, "NeverEstablished", "resource was never established"), nil)
	}
	completed := terminating(apiextensionsv1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances")
	if e.until.IsZero() && c.server.storesNone(ctx, d) {
		return &completed, nil
	}
	v, err := c.stored(d)
	if err != nil {
		err = fmt.Errorf("unable to find a custom resource client for %s.%s: %w", full.Status.AcceptedNames.Plural, full.Spec.Group, err)
		return verdict(failedDeletion("could not list instances: %v", err), err)
	}
	if e.until.IsZero() {
		if v, err := deleteAll(ctx, v); err != nil {
			return &v, err
		}
		e.until = time.Now().Add(goneTimeout)
	}
	left, err := anyLeft(ctx, v)
	if err == nil && left && time.Now().After(e.until) {
		err = context.DeadlineExceeded
	}
	switch {
	case err != nil:
		return verdict(terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionCheck",
			fmt.Sprintf("could not confirm zero CustomResources remaining: %v", err)), err)
	case left:
		return nil, nil
	}
	return &completed, nil
}

// storesNone reports whether it is known that there is no object of a definition that
// is served. Most that are deleted have none, and need no storage opened to see that.
func (s *Server) storesNone(ctx context.Context, d *Definition) bool {
	now := s.serve(d.Name)
	if s.cfg.Stored == nil || now == nil || now.check() != nil {
		return false
	}
	options, err := s.options.GetRESTOptions(now.resource("").GroupResource(), nil)
	if err != nil {
		return false
	}
	n, err := s.cfg.Stored(ctx, options.StorageConfig, options.ResourcePrefix)
	return err == nil && n == 0
}

// stored is the version that a definition's objects are stored in.
func (c *controller) stored(d *Definition) (*version, error) {
	now := c.server.serve(d.Name)
	if now == nil {
		return nil, errChanged
	}
	return now.version(now.def.StorageVersion())
}

// anyLeft reports whether there is an object.
func anyLeft(ctx context.Context, v *version) (bool, error) {
	list, err := v.rest.List(ctx, &internalversion.ListOptions{Limit: 1})
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
		return failedDeletion("could not list instances: %v", err), err
	}
	namespaces := map[string]bool{}
	for e := range v.store.Resource().Snapshot().All("", "") {
		namespace := ""
		if v.rest.CreateStrategy.NamespaceScoped() {
			namespace, _, _ = strings.Cut(e.Key, "/")
		}
		namespaces[namespace] = true
	}
	var errs []error
	for namespace := range namespaces {
		if _, err := v.rest.DeleteCollection(request.WithNamespace(ctx, namespace), rest.ValidateAllObjectFunc, nil, nil); err != nil {
			errs = append(errs, err)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return failedDeletion("could not issue all deletes: %v", err), err
	}
	return condition{}, nil
}
