package kube_test

import (
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubefuzzer "k8s.io/kubernetes/pkg/api/testing"
	registryreplicaset "k8s.io/kubernetes/pkg/registry/apps/replicaset"
	registryjob "k8s.io/kubernetes/pkg/registry/batch/job"
	registryconfigmap "k8s.io/kubernetes/pkg/registry/core/configmap"
	registryevent "k8s.io/kubernetes/pkg/registry/core/event"
	registrynamespace "k8s.io/kubernetes/pkg/registry/core/namespace"
	registrynode "k8s.io/kubernetes/pkg/registry/core/node"
	registryvolume "k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	registrysecret "k8s.io/kubernetes/pkg/registry/core/secret"
	registryclaim "k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	registryclaimtemplate "k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/wire/entry"
)

// scannedKind is a kind with a scanner, and how Kubernetes reads its attributes.
type scannedKind struct {
	kind       schema.GroupVersionKind
	scan       func([]byte) (entry.Scan, bool)
	attributes storage.AttrFunc
}

// scanCounts says how many objects of a kind were sent to its scanner, and what became of them.
type scanCounts struct{ scanned, wrong int }

// scanRandom compares scanned and decoded attributes of random objects, half of which are as
// Kubernetes stores them.
func scanRandom(t *testing.T, k scannedKind, objects int) (counts scanCounts) {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	codec := legacyscheme.Codecs.CodecForVersions(info.Serializer, legacyscheme.Codecs.UniversalDeserializer(), k.kind.GroupVersion(), runtime.InternalGroupVersioner)
	source := rand.NewSource(5)
	filler := fuzzer.FuzzerFor(kubefuzzer.FuzzerFuncs, source, legacyscheme.Codecs)
	for i := range objects {
		obj, err := legacyscheme.Scheme.New(k.kind)
		if err != nil {
			t.Fatal(err)
		}
		filler.Fill(obj)
		obj.GetObjectKind().SetGroupVersionKind(k.kind)
		value, err := runtime.Encode(protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme), obj)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := runtime.Decode(codec, value)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if value, err = runtime.Encode(codec, decoded); err != nil {
				t.Fatal(err)
			}
		}
		got, ok := k.scan(value)
		if !ok {
			continue
		}
		counts.scanned++
		if !sameAttributes(t, k, got, decoded) {
			counts.wrong++
		}
	}
	return counts
}

func sameAttributes(t *testing.T, k scannedKind, got entry.Scan, decoded runtime.Object) bool {
	t.Helper()
	wantLabels, wantFields, err := k.attributes(decoded)
	if err != nil {
		t.Fatal(err)
	}
	delete(wantFields, "metadata.name")
	delete(wantFields, "metadata.namespace")
	m, err := meta.Accessor(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return apiequality.Semantic.DeepEqual(wantLabels, got.Labels) && apiequality.Semantic.DeepEqual(wantFields, got.Fields) && string(got.UID) == string(m.GetUID())
}

// TestScansEqualDecoding compares scanned and decoded attributes of kinds with selectable
// fields, and of some whose registries have functions of their own for nothing.
func TestScansEqualDecoding(t *testing.T) {
	const objects = 400
	for _, k := range []struct {
		gvr        schema.GroupVersionResource
		kind       string
		attributes storage.AttrFunc
	}{
		{corev1.SchemeGroupVersion.WithResource("nodes"), "Node", registrynode.GetAttrs},
		{corev1.SchemeGroupVersion.WithResource("events"), "Event", registryevent.GetAttrs},
		{corev1.SchemeGroupVersion.WithResource("secrets"), "Secret", registrysecret.GetAttrs},
		{corev1.SchemeGroupVersion.WithResource("configmaps"), "ConfigMap", registryconfigmap.GetAttrs},
		{corev1.SchemeGroupVersion.WithResource("namespaces"), "Namespace", registrynamespace.GetAttrs},
		{corev1.SchemeGroupVersion.WithResource("persistentvolumes"), "PersistentVolume", registryvolume.GetAttrs},
		{appsv1.SchemeGroupVersion.WithResource("replicasets"), "ReplicaSet", registryreplicaset.GetAttrs},
		{batchv1.SchemeGroupVersion.WithResource("jobs"), "Job", registryjob.GetAttrs},
		{resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), "ResourceClaim", registryclaim.GetAttrs},
		{resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates"), "ResourceClaimTemplate", registryclaimtemplate.GetAttrs},
	} {
		kind := k.gvr.GroupVersion().WithKind(k.kind)
		scan := kube.AttributeScanner(k.gvr.GroupResource(), emptyInternal(t, kind), false)
		counts := scanRandom(t, scannedKind{kind, scan, k.attributes}, objects)
		// Half of the objects are as they were filled, and may lack what defaulting sets; many
		// jobs have no labels.
		if counts.wrong > 0 || counts.scanned < objects/4 {
			t.Errorf("%s: of %d objects %d were scanned, %d wrong", k.gvr.Resource, objects, counts.scanned, counts.wrong)
		}
	}
}

func emptyInternal(t *testing.T, kind schema.GroupVersionKind) runtime.Object {
	t.Helper()
	empty, err := legacyscheme.Scheme.New(schema.GroupVersionKind{Group: kind.Group, Version: runtime.APIVersionInternal, Kind: kind.Kind})
	if err != nil {
		t.Fatal(err)
	}
	return empty
}

// TestMetadataScansEqualDecoding reads the metadata of objects of all kinds. Defaulting changes
// the labels of three, which have selectable fields, and so are never read by this scanner.
func TestMetadataScansEqualDecoding(t *testing.T) {
	const objects = 40
	changed := map[string]bool{}
	kinds := 0
	for _, gv := range preferredVersions() {
		for name := range legacyscheme.Scheme.KnownTypes(gv) {
			kind := gv.WithKind(name)
			if !isStored(t, kind) {
				continue
			}
			kinds++
			scan := kube.AttributeScanner(schema.GroupResource{Group: gv.Group, Resource: "any"}, emptyInternal(t, kind), true)
			counts := scanRandom(t, scannedKind{kind, scan, storage.DefaultNamespaceScopedAttr}, objects)
			if changed[name] = counts.wrong > 0; counts.scanned < objects {
				t.Errorf("%v: of %d objects %d were scanned", kind, objects, counts.scanned)
			}
		}
	}
	maps.DeleteFunc(changed, func(_ string, wrong bool) bool { return !wrong })
	if got, want := slices.Sorted(maps.Keys(changed)), []string{"Job", "Namespace", "ReplicationController"}; !slices.Equal(got, want) || kinds < 50 {
		t.Errorf("of %d kinds, defaulting changes the labels of %v, want %v", kinds, got, want)
	}
}

// preferredVersions has the first version of each group that a server has.
func preferredVersions() []schema.GroupVersion {
	seen := map[string]bool{"extensions": true} // Its kinds are stored in other groups.
	return slices.DeleteFunc(legacyscheme.Scheme.PrioritizedVersionsAllGroups(), func(gv schema.GroupVersion) bool {
		defer func() { seen[gv.Group] = true }()
		return seen[gv.Group]
	})
}

// isStored reports whether a kind is one of objects with metadata, of which there are lists.
func isStored(t *testing.T, kind schema.GroupVersionKind) bool {
	t.Helper()
	internal := schema.GroupVersionKind{Group: kind.Group, Version: runtime.APIVersionInternal, Kind: kind.Kind}
	if !legacyscheme.Scheme.Recognizes(internal) || !legacyscheme.Scheme.Recognizes(kind.GroupVersion().WithKind(kind.Kind+"List")) {
		return false
	}
	obj, err := legacyscheme.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	_, ok := reflect.TypeOf(obj).Elem().FieldByName("ObjectMeta")
	return ok
}

// TestObjectsWithoutDefaultsAreDecoded stores objects that decoding gives other attributes.
func TestObjectsWithoutDefaultsAreDecoded(t *testing.T) {
	for name, obj := range map[string]struct {
		gr   schema.GroupResource
		kind schema.GroupVersionKind
		obj  runtime.Object
	}{
		"job without labels":         {schema.GroupResource{Group: "batch", Resource: "jobs"}, batchv1.SchemeGroupVersion.WithKind("Job"), &batchv1.Job{}},
		"namespace without label":    {schema.GroupResource{Resource: "namespaces"}, corev1.SchemeGroupVersion.WithKind("Namespace"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}},
		"namespace with other label": {schema.GroupResource{Resource: "namespaces"}, corev1.SchemeGroupVersion.WithKind("Namespace"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelMetadataName: "b"}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}},
		"namespace without phase":    {schema.GroupResource{Resource: "namespaces"}, corev1.SchemeGroupVersion.WithKind("Namespace"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelMetadataName: "a"}}}},
		"another kind":               {schema.GroupResource{Group: "apps", Resource: "replicasets"}, appsv1.SchemeGroupVersion.WithKind("Deployment"), &appsv1.Deployment{}},
	} {
		obj.obj.GetObjectKind().SetGroupVersionKind(obj.kind)
		value, err := runtime.Encode(protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme), obj.obj)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := kube.AttributeScanner(obj.gr, emptyInternal(t, obj.kind), false)(value); ok {
			t.Errorf("%s: scanned %v", name, got)
		}
	}
}
