package fill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// apiClient writes objects through an API server.
type apiClient struct {
	rest    rest.Interface
	params  runtime.ParameterCodec
	host    string
	seed    string
	workers int

	mu struct {
		sync.Mutex
		// skippedNamespaces lists the namespaces that were not deleted, because they
		// hold objects that fill did not make.
		skippedNamespaces []string
		// servedDefinitions holds the definitions that the server is known to serve.
		servedDefinitions map[Definition]bool
		// refusedDefinitions lists the definitions whose rules refuse the objects of fill.
		refusedDefinitions map[string]bool
		// foreignDefinitions has the definitions that exist without this seed.
		foreignDefinitions map[string]bool
		// keptDefinitions has the definitions that were not deleted, because other objects of them exist.
		keptDefinitions map[string]bool
	}
}

// newAPIClient returns a client that is not throttled. It sends protobuf where it may. It
// contacts no server.
func newAPIClient(cfg Config, generator *Generator) (*apiClient, error) {
	conf := rest.CopyConfig(cfg.REST)
	// client-go's scheme is global to the process. A scheme of our own holds only
	// the types that we need.
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme),
		coordinationv1.AddToScheme(scheme), metav1.AddMetaToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	conf.GroupVersion = &corev1.SchemeGroupVersion
	conf.APIPath = "/api"
	conf.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	conf.ContentType = runtime.ContentTypeProtobuf
	conf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	conf.WarningHandler = rest.NoWarnings{}
	conf.RateLimiter = nil
	conf.QPS = -1 // as fast as the server takes it
	if conf.Timeout == 0 {
		conf.Timeout = time.Minute
	}
	client, err := rest.RESTClientFor(conf)
	if err != nil {
		return nil, fmt.Errorf("configure API client: %w; check the kubeconfig", err)
	}
	return &apiClient{
		rest:    client,
		params:  runtime.NewParameterCodec(scheme),
		host:    conf.Host,
		seed:    generator.seedLabel(),
		workers: cfg.Workers,
	}, nil
}

// ping checks that the server answers, and that the credentials may list namespaces, as fill must.
func (c *apiClient) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := c.rest.Get().Resource(string(KindNamespace)).Param("limit", "1").Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return fmt.Errorf("reach API server %s: %w; use a kubeconfig with administrator's rights", c.host, err)
	}
	return fmt.Errorf("reach API server %s: %w; check that it runs and that the kubeconfig is right", c.host, err)
}

func (c *apiClient) close() error { return nil }

// notes returns lines about skipped objects. It must not be called while store or remove runs.
func (c *apiClient) notes() []string {
	notes := skippedNotes(c.mu.skippedNamespaces)
	for _, n := range []struct {
		text        string
		definitions map[string]bool
	}{
		{"wrote no objects of definitions whose rules refuse what fill can make: ", c.mu.refusedDefinitions},
		{"left out definitions that somebody else or another seed has made, and their objects: ", c.mu.foreignDefinitions},
		{"left definitions that have objects which fill did not make: ", c.mu.keptDefinitions},
	} {
		if names := slices.Sorted(maps.Keys(n.definitions)); len(names) > 0 {
			notes = append(notes, n.text+strings.Join(names, ", "))
		}
	}
	return notes
}

// note adds a definition to one of the sets in c.mu.
func (c *apiClient) note(set *map[string]bool, definition string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[definition] = true
}

func (c *apiClient) noteSkipped(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.skippedNamespaces = append(c.mu.skippedNamespaces, namespace)
}

func (c *apiClient) store(ctx context.Context, kind Kind, objs []Object) (Count, error) {
	var total Count
	for _, obj := range objs {
		count, err := c.storeOne(ctx, kind, obj)
		total.add(count)
		if err != nil {
			return total, fmt.Errorf("create %s %s: %w", kind.noun(1), objectName(obj), err)
		}
	}
	return total, nil
}

func objectName(obj Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

// storeOne creates one object and completes it. If an interrupted run has left the object, storeOne
// only completes it. Other existing objects are skipped.
func (c *apiClient) storeOne(ctx context.Context, kind Kind, obj Object) (Count, error) {
	if object, ok := obj.(*placedObject); ok {
		return c.storePlaced(ctx, object)
	}
	if kind.custom() {
		return c.storeCustom(ctx, kind, obj)
	}
	count := Count{Done: 1}
	if sized, ok := obj.(interface{ Size() int }); ok {
		count.Bytes = int64(sized.Size())
	}
	err := retry(ctx, isTransientAPI, func() error {
		return c.rest.Post().AbsPath(kind.api()).
			NamespaceIfScoped(obj.GetNamespace(), kind.Namespaced()).Resource(string(kind)).
			Param("fieldManager", fieldManager(kind)).Body(asCreated(obj)).Do(ctx).Error()
	})
	if apierrors.IsAlreadyExists(err) {
		count = Count{Skipped: 1}
		var finished bool
		if finished, err = c.isComplete(ctx, kind, obj); finished {
			return count, err
		}
	}
	if err == nil {
		err = c.complete(ctx, kind, obj)
	}
	if err != nil {
		return Count{}, err
	}
	return count, nil
}

// complete writes the parts of an object that the server ignores or changes when
// the object is created.
func (c *apiClient) complete(ctx context.Context, kind Kind, obj Object) error {
	switch obj := obj.(type) {
	case *corev1.Node:
		// Admission taints every new node until a controller finds the node
		// ready. A second write of the node removes the taint.
		if err := c.put(ctx, kind, obj, ""); err != nil {
			return err
		}
		return c.put(ctx, kind, obj, "status")
	case *corev1.Pod:
		if obj.Spec.NodeName != "" {
			return c.put(ctx, kind, obj, "status")
		}
	}
	return nil
}

// put replaces an object or its status unconditionally: it sends no resource
// version.
func (c *apiClient) put(ctx context.Context, kind Kind, obj Object, subresource string) error {
	return retry(ctx, isTransientAPI, func() error {
		req := c.rest.Put().
			NamespaceIfScoped(obj.GetNamespace(), kind.Namespaced()).Resource(string(kind)).Name(obj.GetName())
		if subresource != "" {
			req = req.SubResource(subresource)
		}
		return req.Param("fieldManager", "kubelet").Body(asReplacement(obj)).Do(ctx).Error()
	})
}

// isComplete reports whether an existing object needs no further write: fill did not make
// it, or it already has the parts that complete writes.
func (c *apiClient) isComplete(ctx context.Context, kind Kind, obj Object) (bool, error) {
	switch obj.(type) {
	case *corev1.Node, *corev1.Pod:
	default:
		return true, nil
	}
	existing := obj.DeepCopyObject().(Object)
	err := retry(ctx, isTransientAPI, func() error {
		return c.rest.Get().
			NamespaceIfScoped(obj.GetNamespace(), kind.Namespaced()).Resource(string(kind)).Name(obj.GetName()).
			Do(ctx).Into(existing)
	})
	if err != nil || existing.GetLabels()[LabelSeed] != c.seed {
		return true, err
	}
	switch existing := existing.(type) {
	case *corev1.Node:
		return len(existing.Spec.Taints) == 0 && len(existing.Status.Conditions) > 0, nil
	case *corev1.Pod:
		return existing.Spec.NodeName == "" || len(existing.Status.ContainerStatuses) > 0, nil
	}
	return true, nil
}

// fieldManager returns the field manager that creates objects of this kind in a
// real cluster.
func fieldManager(kind Kind) string {
	switch kind {
	case KindPod, KindServiceAccount:
		return "kube-controller-manager"
	case KindNode, KindLease, KindEvent:
		return "kubelet"
	}
	return "helm"
}

// asCreated returns a shallow copy of obj without the fields that the server sets
// on creation. The copy shares memory with obj.
func asCreated(obj Object) Object {
	created := asReplacement(obj)
	if pod, ok := created.(*corev1.Pod); ok {
		pod.Status = corev1.PodStatus{}
		// Admission computes both fields from the priority class. It refuses other
		// values.
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = nil, nil
	}
	if service, ok := created.(*corev1.Service); ok {
		service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil // the server allocates one
	}
	return created
}

// asReplacement returns a shallow copy of obj without the fields that the server sets: UID, generation,
// creation time and managed fields. The copy shares memory with obj.
func asReplacement(obj Object) Object {
	value := reflect.New(reflect.TypeOf(obj).Elem())
	value.Elem().Set(reflect.ValueOf(obj).Elem())
	replacement := value.Interface().(Object)
	replacement.SetUID("")
	replacement.SetGeneration(0)
	replacement.SetCreationTimestamp(metav1.Time{})
	replacement.SetManagedFields(nil)
	return replacement
}

// isTransientAPI reports whether a later attempt may succeed.
func isTransientAPI(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return apierrors.IsConflict(err) || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		utilnet.IsTimeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
