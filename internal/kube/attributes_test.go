package kube_test

import (
	"math/rand"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubefuzzer "k8s.io/kubernetes/pkg/api/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	registryconfigmap "k8s.io/kubernetes/pkg/registry/core/configmap"
	registryevent "k8s.io/kubernetes/pkg/registry/core/event"
	registrynode "k8s.io/kubernetes/pkg/registry/core/node"
	registrypod "k8s.io/kubernetes/pkg/registry/core/pod"
	registrysecret "k8s.io/kubernetes/pkg/registry/core/secret"

	"github.com/millrace/millrace/internal/kube"
)

// TestPodScanEqualsDecoding compares scanned and decoded attributes of random pods, some
// with unusual fields.
func TestPodScanEqualsDecoding(t *testing.T) {
	const pods = 3000
	scan := kube.AttributeScanner(schema.GroupResource{Resource: "pods"})
	info, _ := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	codec := legacyscheme.Codecs.CodecForVersions(info.Serializer, legacyscheme.Codecs.UniversalDeserializer(), corev1.SchemeGroupVersion, runtime.InternalGroupVersioner)
	src := rand.NewSource(3)
	r, filler := rand.New(src), fuzzer.FuzzerFor(kubefuzzer.FuzzerFuncs, src, legacyscheme.Codecs)
	scanned := 0
	for range pods {
		pod := &api.Pod{}
		filler.Fill(pod)
		if r.Intn(2) == 0 {
			pod.Labels = map[string]string{"app": "web", "": "empty", "tier": ""}
		}
		v1 := &corev1.Pod{}
		if err := legacyscheme.Scheme.Convert(pod, v1, nil); err != nil {
			t.Fatal(err)
		}
		unsetDefaults(r, v1)
		value, err := runtime.Encode(codec, v1)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := runtime.Decode(codec, value)
		if err != nil {
			t.Fatal(err)
		}
		wantLabels, wantFields, err := registrypod.GetAttrs(decoded)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := scan(value)
		if !ok {
			continue
		}
		scanned++
		delete(wantFields, "metadata.name")
		delete(wantFields, "metadata.namespace")
		if !apiequality.Semantic.DeepEqual(labels.Set(wantLabels), got.Labels) || !apiequality.Semantic.DeepEqual(fields.Set(wantFields), got.Fields) {
			t.Fatalf("scanned %v and %v, want %v and %v", got.Labels, got.Fields, wantLabels, wantFields)
		}
		if want := decoded.(*api.Pod).UID; string(got.UID) != string(want) {
			t.Fatalf("scanned the UID %q, want %q", got.UID, want)
		}
		for cut := range 40 {
			// Damaged bytes may be scanned, but must not panic.
			scan(value[:len(value)*cut/40])
		}
	}
	if scanned < pods/4 {
		t.Errorf("only %d of %d pods could be scanned", scanned, pods)
	}
}

// TestScansEqualDecoding compares scanned and decoded attributes of random objects.
func TestScansEqualDecoding(t *testing.T) {
	const objects = 400
	for gvr, attributes := range map[schema.GroupVersionResource]storage.AttrFunc{
		corev1.SchemeGroupVersion.WithResource("nodes"):               registrynode.GetAttrs,
		corev1.SchemeGroupVersion.WithResource("events"):              registryevent.GetAttrs,
		corev1.SchemeGroupVersion.WithResource("secrets"):             registrysecret.GetAttrs,
		corev1.SchemeGroupVersion.WithResource("configmaps"):          registryconfigmap.GetAttrs,
		coordinationv1.SchemeGroupVersion.WithResource("leases"):      storage.DefaultNamespaceScopedAttr,
		discoveryv1.SchemeGroupVersion.WithResource("endpointslices"): storage.DefaultNamespaceScopedAttr,
	} {
		scan := kube.AttributeScanner(gvr.GroupResource())
		kind := gvr.GroupVersion().WithKind(map[string]string{"nodes": "Node", "events": "Event", "secrets": "Secret", "configmaps": "ConfigMap", "leases": "Lease", "endpointslices": "EndpointSlice"}[gvr.Resource])
		info, _ := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
		codec := legacyscheme.Codecs.CodecForVersions(info.Serializer, legacyscheme.Codecs.UniversalDeserializer(), gvr.GroupVersion(), runtime.InternalGroupVersioner)
		filler := fuzzer.FuzzerFor(kubefuzzer.FuzzerFuncs, rand.NewSource(5), legacyscheme.Codecs)
		scanned := 0
		for range objects {
			obj, err := legacyscheme.Scheme.New(kind)
			if err != nil {
				t.Fatal(err)
			}
			filler.Fill(obj)
			obj.GetObjectKind().SetGroupVersionKind(kind)
			value, err := runtime.Encode(protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme), obj)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := runtime.Decode(codec, value)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := scan(value)
			if !ok {
				continue
			}
			scanned++
			wantLabels, wantFields, err := attributes(decoded)
			if err != nil {
				t.Fatal(err)
			}
			delete(wantFields, "metadata.name")
			delete(wantFields, "metadata.namespace")
			if !apiequality.Semantic.DeepEqual(wantLabels, got.Labels) || !apiequality.Semantic.DeepEqual(wantFields, got.Fields) {
				t.Fatalf("%s: scanned %v and %v, want %v and %v", gvr.Resource, got.Labels, got.Fields, wantLabels, wantFields)
			}
			m, err := meta.Accessor(decoded)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.UID) != string(m.GetUID()) {
				t.Fatalf("%s: scanned the UID %q, want %q", gvr.Resource, got.UID, m.GetUID())
			}
		}
		if scanned < objects*3/4 {
			t.Errorf("only %d of %d %s could be scanned", scanned, objects, gvr.Resource)
		}
	}
}

// unsetDefaults removes fields that an API server would have set, or makes fields differ
// that are kept equal.
func unsetDefaults(r *rand.Rand, pod *corev1.Pod) {
	for _, change := range []func(){
		func() { pod.Spec.RestartPolicy = "" },
		func() { pod.Spec.SchedulerName = "" },
		func() { pod.Spec.DeprecatedServiceAccount = "other" },
		func() { pod.Spec.ServiceAccountName = "" },
		func() { pod.Status.PodIP = "10.0.0.1" },
		func() { pod.Status.PodIPs = nil },
		func() { pod.Spec.HostNetwork = true },
		func() { pod.Status.Phase, pod.Spec.NodeName = corev1.PodFailed, "node-1" },
	} {
		if r.Intn(12) == 0 {
			change()
		}
	}
}

// TestDefinitionScan checks that definitions are scanned. Package crd compares the
// results with decoding.
func TestDefinitionScan(t *testing.T) {
	scan := kube.AttributeScanner(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"})
	if scan == nil {
		t.Fatal("definitions are decoded")
	}
	got, ok := scan([]byte(`{"kind":"CustomResourceDefinition","metadata":{"name":"things.a.example","labels":{"a":"b"},"uid":"1-2"},"spec":{}}` + "\n"))
	if !ok || got.Labels.Get("a") != "b" || got.Fields.Get("metadata.name") != "things.a.example" || !got.Fields.Has("metadata.namespace") || string(got.UID) != "1-2" {
		t.Errorf("read %v, %v", got, ok)
	}
}
