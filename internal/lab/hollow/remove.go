package hollow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/display"
)

const (
	removers    = 32  // number of concurrent requests
	removePage  = 500 // objects in a page of a LIST
	removeTries = 5   // attempts to delete one object
)

// remover removes what runs of one name have left.
type remover struct {
	cfg      Config
	admin    kubernetes.Interface // reads pods, whose spec is needed
	client   metadata.Interface
	progress *display.Line
	count    atomic.Int64
}

// removedObject is one object to remove, as it was when it was found.
type removedObject struct {
	namespace, name string
	uid             types.UID
}

var (
	nodesResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	podsResource  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// podMakers returns the resources whose objects create pods. Their labelled objects are removed
// before all others.
func podMakers() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "replicasets"}}
}

// labelledResources returns the other resources whose objects carry the label, in the order of
// removal. Nodes come last: their pods are found by the nodes' names, so an interrupted removal
// finds the rest again.
func labelledResources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		podsResource,
		{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "serviceaccounts"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		{Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"},
		nodesResource,
	}
}

// Remove removes all objects with the label of a run, also Deployments that others have made. It
// also removes the pods on the run's nodes, as the garbage collector of pods would.
func Remove(ctx context.Context, cfg Config) error {
	if err := cfg.validateName(); err != nil {
		return err
	}
	admin, err := NewClient(cfg.REST)
	if err != nil {
		return err
	}
	if err := preflight(ctx, admin, &cfg); err != nil {
		return err
	}
	own := rest.CopyConfig(cfg.REST)
	own.QPS, own.WarningHandler = -1, rest.NoWarnings{}
	client, err := metadata.NewForConfig(own)
	if err != nil {
		return fmt.Errorf("make a client: %w: check the kubeconfig", err)
	}
	r := &remover{cfg: cfg, admin: admin, client: client, progress: display.NewLine(cfg.Progress)}
	following, stop := context.WithCancel(ctx)
	var showing sync.WaitGroup
	showing.Go(func() {
		r.progress.Follow(following, func(time.Duration) string { return fmt.Sprintf("removed %d objects", r.count.Load()) })
	})
	err = r.run(ctx)
	stop()
	showing.Wait()
	if err != nil {
		return fmt.Errorf("%w: repeat the command to go on", err)
	}
	r.progress.Print("removed %d objects of the run %q", r.count.Load(), cfg.Name)
	return nil
}

// run removes everything, in the order that podMakers and labelledResources describe.
func (r *remover) run(ctx context.Context) error {
	if err := r.removeLabelled(ctx, podMakers()); err != nil {
		return err
	}
	if err := r.removePodsOfNodes(ctx); err != nil {
		return err
	}
	return r.removeLabelled(ctx, labelledResources())
}

func (r *remover) removeLabelled(ctx context.Context, resources []schema.GroupVersionResource) error {
	for _, resource := range resources {
		objects, err := r.list(ctx, resource)
		if err == nil {
			err = r.removeAll(ctx, resource, objects)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removePodsOfNodes removes the pods that others have placed on the run's nodes.
func (r *remover) removePodsOfNodes(ctx context.Context) error {
	nodes, err := r.list(ctx, nodesResource)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(removers)
	for _, node := range nodes {
		group.Go(func() error {
			pods, err := r.podsOf(ctx, node.name)
			for i := 0; err == nil && i < len(pods); i++ {
				err = r.removeOne(ctx, podsResource, pods[i])
			}
			return err
		})
	}
	return group.Wait()
}

// podsOf returns the pods of a node.
func (r *remover) podsOf(ctx context.Context, node string) ([]removedObject, error) {
	var pods []removedObject
	opts := metav1.ListOptions{FieldSelector: "spec.nodeName=" + node, Limit: removePage}
	for {
		page, err := r.admin.CoreV1().Pods(metav1.NamespaceAll).List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("list pods of node %s: %w", node, err)
		}
		for i := range page.Items {
			// A server that ignores selectors must not make a removal remove more.
			if pod := &page.Items[i]; pod.Spec.NodeName == node {
				pods = append(pods, removedObject{pod.Namespace, pod.Name, pod.UID})
			}
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return pods, nil
		}
	}
}

// list returns the objects of a resource that carry the run's label.
func (r *remover) list(ctx context.Context, resource schema.GroupVersionResource) ([]removedObject, error) {
	var all []removedObject
	opts := metav1.ListOptions{LabelSelector: Label + "=" + r.cfg.Name, Limit: removePage}
	for {
		page, err := r.client.Resource(resource).List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		for i := range page.Items {
			item := &page.Items[i]
			// A server that ignores selectors must not make a removal remove more.
			if item.Labels[Label] == r.cfg.Name {
				all = append(all, removedObject{item.Namespace, item.Name, item.UID})
			}
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return all, nil
		}
	}
}

func (r *remover) removeAll(ctx context.Context, resource schema.GroupVersionResource, objects []removedObject) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(removers)
	for _, object := range objects {
		group.Go(func() error { return r.removeOne(ctx, resource, object) })
	}
	return group.Wait()
}

// removeOne deletes an object without a grace period, if it is still the listed one.
func (r *remover) removeOne(ctx context.Context, resource schema.GroupVersionResource, object removedObject) error {
	now := int64(0)
	opts := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &object.uid}}
	var err error
	for try := range removeTries {
		if try > 0 {
			select {
			case <-time.After(time.Duration(try) * time.Second):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		err = r.client.Resource(resource).Namespace(object.namespace).Delete(ctx, object.name, opts)
		switch {
		case err == nil:
			r.count.Add(1)
			return nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another one by now
			return nil
		}
	}
	return fmt.Errorf("delete %s %s: %w", resource.Resource, object.name, err)
}
