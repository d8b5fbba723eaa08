package fill

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// listPage is the largest number of objects in the answer to one LIST. Only metadata is transferred.
const listPage = 500

// acceptListMetadata is the Accept header for the metadata of a list's objects. Every
// Kubernetes server since 1.15 supports it.
const acceptListMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// listedObject is one object of fill found through the API.
type listedObject struct {
	namespace, name string
	uid             types.UID
}

// remove deletes the objects of a kind that carry the seed, with c.workers requests at once. It
// calls report after each object, from several goroutines. For definitions it also waits until
// the server has removed them.
func (c *apiClient) remove(ctx context.Context, kind Kind, report func(Count)) error {
	objects := make(chan listedObject, listPage)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(objects)
		return ignoreUnserved(c.listSeeded(groupCtx, path.Join(kind.api(), string(kind)), objects))
	})
	for range c.workers {
		group.Go(func() error {
			for obj := range objects {
				count, err := c.removeOne(groupCtx, kind, obj)
				report(count)
				if err != nil {
					return fmt.Errorf("delete %s %s: %w", kind.noun(1), path.Join(obj.namespace, obj.name), err)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	if err == nil && kind == KindCRD {
		err = c.waitUntilGone(ctx)
	}
	return err
}

// listSeeded sends the objects of a collection that carry the seed, of all namespaces, to objects.
func (c *apiClient) listSeeded(ctx context.Context, collection string, objects chan<- listedObject) error {
	for item, err := range c.listMetadata(ctx, collection, LabelSeed+"="+c.seed, listPage) {
		if err != nil {
			return err
		}
		// A server that ignores selectors must not make fill delete other objects.
		if item.Labels[LabelSeed] != c.seed {
			continue
		}
		select {
		case objects <- listedObject{item.Namespace, item.Name, item.UID}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// errUnserved says that a server does not serve a resource.
var errUnserved = errors.New("the server does not serve it")

// listMetadata lists a collection in pages of limit objects. An error ends the sequence;
// errUnserved means that the server does not have the resource. If the continue token has
// expired, the listing starts again, and then yields objects a second time.
func (c *apiClient) listMetadata(ctx context.Context, collection, selector string, limit int64) iter.Seq2[*metav1.PartialObjectMetadata, error] {
	return func(yield func(*metav1.PartialObjectMetadata, error) bool) {
		opts := metav1.ListOptions{LabelSelector: selector, Limit: limit}
		for {
			var page metav1.PartialObjectMetadataList
			err := retry(ctx, isTransientAPI, func() error {
				page = metav1.PartialObjectMetadataList{}
				return c.rest.Get().AbsPath(collection).SetHeader("Accept", acceptListMetadata).VersionedParams(&opts, c.params).Do(ctx).Into(&page)
			})
			switch {
			case opts.Continue != "" && apierrors.IsResourceExpired(err):
				opts.Continue = ""
				continue
			case apierrors.IsNotFound(err):
				yield(nil, errUnserved)
				return
			case err != nil:
				yield(nil, fmt.Errorf("list %s: %w", path.Base(collection), err))
				return
			}
			for i := range page.Items {
				if !yield(&page.Items[i], nil) {
					return
				}
			}
			if opts.Continue = page.Continue; opts.Continue == "" {
				return
			}
		}
	}
}

// removeOne deletes one object. An object that is gone by then counts as neither done nor
// skipped, and another object that has taken its name is skipped.
func (c *apiClient) removeOne(ctx context.Context, kind Kind, obj listedObject) (Count, error) {
	if kind == KindNamespace {
		return c.removeNamespace(ctx, obj)
	}
	if kind == KindCRD {
		if kept, err := c.keepIfShared(ctx, obj.name); kept || err != nil {
			return Count{Skipped: 1}, err
		}
	}
	switch err := c.deleteObject(ctx, kind, obj); {
	case apierrors.IsNotFound(err):
		return Count{}, nil
	case apierrors.IsConflict(err): // another object of that name by now
		return Count{Skipped: 1}, nil
	case err != nil:
		return Count{}, err
	}
	return Count{Done: 1}, nil
}

// deleteObject removes an object without a grace period, unless another object has taken its name.
func (c *apiClient) deleteObject(ctx context.Context, kind Kind, obj listedObject) error {
	// Some kinds would otherwise wait for a controller to orphan what they own.
	background := metav1.DeletePropagationBackground
	opts := metav1.DeleteOptions{PropagationPolicy: &background}
	if obj.uid != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &obj.uid}
	}
	if kind == KindPod {
		// No kubelet exists to confirm that the containers have stopped.
		now := int64(0)
		opts.GracePeriodSeconds = &now
	}
	if kind == "persistentvolumes" || kind == "persistentvolumeclaims" {
		// Admission has added a finalizer that only a controller removes.
		err := retry(ctx, isTransientAndNoConflict, func() error {
			return c.rest.Patch(types.MergePatchType).AbsPath(kind.api()).
				NamespaceIfScoped(obj.namespace, kind.Namespaced()).Resource(string(kind)).
				Name(obj.name).Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(ctx).Error()
		})
		if err != nil {
			return err
		}
	}
	return retry(ctx, isTransientAndNoConflict, func() error {
		return c.rest.Delete().AbsPath(kind.api()).NamespaceIfScoped(obj.namespace, kind.Namespaced()).Resource(string(kind)).
			Name(obj.name).Body(&opts).Do(ctx).Error()
	})
}

// isTransientAndNoConflict reports whether a later attempt to delete may succeed. After a
// conflict it cannot: another object has the name.
func isTransientAndNoConflict(err error) bool {
	return isTransientAPI(err) && !apierrors.IsConflict(err)
}

// removeNamespace deletes a namespace and also does the namespace controller's
// work, because that controller may not run. It removes the objects that a
// control plane creates in every namespace, then finalizes the namespace. A
// namespace that holds any other object is skipped.
func (c *apiClient) removeNamespace(ctx context.Context, ns listedObject) (Count, error) {
	occupied, err := c.isOccupied(ctx, ns.name)
	if err != nil {
		return Count{}, err
	}
	if occupied {
		c.noteSkipped(ns.name)
		return Count{Skipped: 1}, nil
	}
	err = c.deleteObject(ctx, KindNamespace, ns)
	switch {
	case apierrors.IsNotFound(err):
		return Count{}, nil
	case apierrors.IsConflict(err):
		// Either a new namespace has this name, or the namespace is already being
		// deleted.
		var again corev1.Namespace
		err = c.rest.Get().Resource(string(KindNamespace)).Name(ns.name).Do(ctx).Into(&again)
		if apierrors.IsNotFound(err) {
			return Count{}, nil
		}
		if err == nil && (again.UID != ns.uid || again.DeletionTimestamp == nil) {
			c.noteSkipped(ns.name)
			return Count{Skipped: 1}, nil
		}
	}
	if err != nil {
		return Count{}, err
	}
	// From here on the server admits no new objects in the namespace.
	for _, auto := range []struct {
		kind Kind
		name string
	}{{KindServiceAccount, "default"}, {KindConfigMap, "kube-root-ca.crt"}} {
		err := c.deleteObject(ctx, auto.kind, listedObject{namespace: ns.name, name: auto.name})
		if err != nil && !apierrors.IsNotFound(err) {
			return Count{}, fmt.Errorf("delete %s %s: %w", auto.kind.noun(1), auto.name, err)
		}
	}
	if err := c.finalize(ctx, ns.name); err != nil {
		return Count{}, err
	}
	return Count{Done: 1}, nil
}

// finalize removes the finalizers of a namespace that is being deleted.
func (c *apiClient) finalize(ctx context.Context, name string) error {
	err := retry(ctx, isTransientAPI, func() error {
		var ns corev1.Namespace
		if err := c.rest.Get().Resource(string(KindNamespace)).Name(name).Do(ctx).Into(&ns); err != nil {
			return err
		}
		ns.Spec.Finalizers = nil
		return c.rest.Put().Resource(string(KindNamespace)).Name(name).SubResource("finalize").
			Body(&ns).Do(ctx).Error()
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalize namespace: %w", err)
	}
	return nil
}

// isOccupied reports whether a namespace holds objects besides the objects that a control plane
// creates in every namespace.
func (c *apiClient) isOccupied(ctx context.Context, namespace string) (bool, error) {
	for _, kind := range occupants() {
		for item, err := range c.listMetadata(ctx, path.Join(kind.api(), "namespaces", namespace, string(kind)), "", 3) {
			if errors.Is(err, errUnserved) {
				continue // not every server serves every group
			}
			if err != nil {
				return false, err
			}
			if !isAutomatic(kind, item.Name) {
				return true, nil
			}
		}
	}
	return false, nil
}

// occupants returns the kinds that keep a namespace from being deleted: the built-in kinds that
// users create. It leaves out custom objects, and what controllers derive from other objects and
// remove some time after them: endpoints, endpoint slices, controller revisions and events.
func occupants() []Kind {
	kinds := []Kind{KindPod, KindConfigMap, KindSecret, KindServiceAccount, KindService, KindDeployment, KindReplicaSet, KindLease}
	for _, other := range otherKinds() {
		if other.namespaced && other.kind != "endpoints" && other.kind != "controllerrevisions" {
			kinds = append(kinds, other.kind)
		}
	}
	return kinds
}

// isAutomatic reports whether a control plane creates this object in every
// namespace.
func isAutomatic(kind Kind, name string) bool {
	return kind == KindServiceAccount && name == "default" || kind == KindConfigMap && name == "kube-root-ca.crt"
}

// skippedNotes returns a note that names the skipped namespaces, or nil if there
// are none.
func skippedNotes(namespaces []string) []string {
	const maxNames = 5
	if len(namespaces) == 0 {
		return nil
	}
	slices.Sort(namespaces)
	list := strings.Join(namespaces[:min(maxNames, len(namespaces))], ", ")
	if len(namespaces) > maxNames {
		list += fmt.Sprintf(" and %d more", len(namespaces)-maxNames)
	}
	return []string{"left namespaces that changed or hold objects fill did not make: " + list}
}
