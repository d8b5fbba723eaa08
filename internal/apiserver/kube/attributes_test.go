package kube_test

import (
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubefuzzer "k8s.io/kubernetes/pkg/api/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	registrypod "k8s.io/kubernetes/pkg/registry/core/pod"

	"github.com/millrace/millrace/internal/apiserver/kube"
)

// TestPodScanEqualsDecoding compares scanned and decoded attributes of random pods, some
// with unusual fields.
func TestPodScanEqualsDecoding(t *testing.T) {
	const pods = 3000
	scan := kube.AttributeScanner(schema.GroupResource{Resource: "pods"}, &api.Pod{}, false)
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
	scan := kube.AttributeScanner(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, &apiextensions.CustomResourceDefinition{}, true)
	if scan == nil {
		t.Fatal("definitions are decoded")
	}
	got, ok := scan([]byte(`{"kind":"CustomResourceDefinition","metadata":{"name":"things.a.example","labels":{"a":"b"},"uid":"1-2"},"spec":{}}` + "\n"))
	if !ok || got.Labels.Get("a") != "b" || got.Fields.Get("metadata.name") != "things.a.example" || !got.Fields.Has("metadata.namespace") || string(got.UID) != "1-2" {
		t.Errorf("read %v, %v", got, ok)
	}
}
