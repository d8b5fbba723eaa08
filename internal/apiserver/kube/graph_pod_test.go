package kube

import (
	"math/rand"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubefuzzer "k8s.io/kubernetes/pkg/api/testing"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/wire/entry"
)

// graphReads is what the node authorizer reads of a pod.
//
// Upstream: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node.Graph.AddPod; compare at each upgrade.
type graphReads struct {
	Namespace, Name, UID, Node, ServiceAccount string
	Mirror                                     bool
	Secrets, ConfigMaps, Volumes               []string
	Claims                                     []corev1.PodResourceClaim
	Ephemeral                                  int
	ClaimStatuses                              []corev1.PodResourceClaimStatus
	ExtendedClaim                              *corev1.PodExtendedResourceClaimStatus
}

func newGraphReads(pod *corev1.Pod) graphReads {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	r := graphReads{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, ServiceAccount: pod.Spec.ServiceAccountName,
		Mirror: mirror, Ephemeral: len(pod.Spec.EphemeralContainers), Claims: pod.Spec.ResourceClaims,
		ClaimStatuses: pod.Status.ResourceClaimStatuses, ExtendedClaim: pod.Status.ExtendedResourceClaimStatus,
	}
	note := func(names *[]string) podutil.Visitor {
		return func(name string) bool {
			*names = append(*names, name)
			return true
		}
	}
	podutil.VisitPodSecretNames(pod, note(&r.Secrets))
	podutil.VisitPodConfigmapNames(pod, note(&r.ConfigMaps))
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			r.Volumes = append(r.Volumes, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			r.Volumes = append(r.Volumes, pod.Name+"-"+v.Name)
		}
	}
	return r
}

// TestGraphPods compares what the node authorizer reads of random pods with what it reads of
// the same pods as Kubernetes decodes them.
func TestGraphPods(t *testing.T) {
	p := newPodCache(t)
	i := p.informer().(*storedInformer)
	fill := fuzzer.FuzzerFor(kubefuzzer.FuzzerFuncs, rand.NewSource(7), legacyscheme.Codecs).NilChance(.2).NumElements(1, 3)
	secrets, claims := 0, 0
	for n := range 500 {
		pod := &corev1.Pod{}
		fill.Fill(pod)
		pod.Namespace, pod.Name = "a", "1"
		if n%10 == 0 {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""}
		}
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		stored := storedPod(encodeStored(t, pod))
		whole := i.objects.decode(p.store, stored)
		brief := graphPod(stored)
		if whole == nil || brief == nil {
			t.Fatalf("pod %d: decoded as a whole is %v, for the graph %v", n, whole != nil, brief != nil)
		}
		want, got := newGraphReads(whole.(*corev1.Pod)), newGraphReads(brief.(*corev1.Pod))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("the authorizer reads\n%+v\nand of the whole pod\n%+v", got, want)
		}
		if brief.GetResourceVersion() != whole.GetResourceVersion() {
			t.Fatalf("resource version %q, want %q", brief.GetResourceVersion(), whole.GetResourceVersion())
		}
		secrets, claims = secrets+len(want.Secrets), claims+len(want.Claims)
	}
	if secrets < 500 || claims < 50 {
		t.Errorf("the pods have %d secrets and %d claims: that proves little", secrets, claims)
	}
}

// TestHandlersGetGraphPods has a handler and a lister read a pod. The factory has a transform
// function, as kube-apiserver's has.
func TestHandlersGetGraphPods(t *testing.T) {
	p := newPodCache(t)
	stored := encodeStored(t, &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "1"},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	p.load(2, feed.Object{Key: []byte(podPrefix + "a/1"), Value: stored, Revision: 2})
	factory := informers.NewSharedInformerFactoryWithOptions(nil, 0, informers.WithTransform(func(obj any) (any, error) {
		obj.(*corev1.Pod).Annotations = map[string]string{"transformed": "yes"}
		return obj, nil
	}))
	if err := setStoredInformers(factory, func(schema.GroupResource) *storage.Store { return p.store }); err != nil {
		t.Fatal(err)
	}
	pods := factory.Core().V1().Pods()
	got := make(chan *corev1.Pod, 1)
	handle(t, pods.Informer(), toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { got <- obj.(*corev1.Pod) }})
	runInformer(t, pods.Informer())
	select {
	case pod := <-got:
		if pod.Spec.NodeName != "n" || pod.Annotations["transformed"] != "yes" || pod.ResourceVersion != "2" || pod.Spec.Containers[0].Image != "" {
			t.Errorf("the handler got %v, want it with its node, transformed, and without its image", pod)
		}
	case <-time.After(testTimeout):
		t.Fatal("the handler got no pod")
	}
	if pod, err := pods.Lister().Pods("a").Get("1"); err != nil || pod.Spec.Containers[0].Image != "i" {
		t.Errorf("the lister has %v (%v), want all of the pod", pod, err)
	}
}

// TestGraphPodsThatAreNotProtobuf has Kubernetes' decoder read what graphPod cannot.
func TestGraphPodsThatAreNotProtobuf(t *testing.T) {
	for name, value := range map[string]string{
		"JSON": `{"kind":"Pod","apiVersion":"v1"}`, "damaged": "k8s\x00?", "another kind": string(encodeStored(t, &corev1.Secret{})),
	} {
		if pod := graphPod(storedPod([]byte(value))); pod != nil {
			t.Errorf("%s: read as %v", name, pod)
		}
	}
}

func storedPod(value []byte) *entry.Entry {
	return &entry.Entry{Key: "a/1", Value: value, Revision: 7}
}
