package fill

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/validation"
)

func mustGenerator(t testing.TB, shape Shape) *Generator {
	t.Helper()
	g, err := NewGenerator(shape)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustObject(t testing.TB, g *Generator, kind Kind, i int) Object {
	t.Helper()
	obj, err := g.Object(kind, i)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// storableKinds returns the kinds that fill can write directly into etcd.
func storableKinds() []Kind { return slices.DeleteFunc(Kinds(), Kind.custom) }

// mustEncode returns the bytes that fill writes: the stored form, or JSON for kinds
// that have none.
func mustEncode(t testing.TB, obj Object) []byte {
	t.Helper()
	if _, err := kindOf(obj); err != nil {
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	value, err := EncodeStored(obj)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestEqualShapesMakeEqualObjects(t *testing.T) {
	shape := Shape{Seed: 7, Pods: 5000, Secrets: 10, ConfigMaps: 10, CRDs: 5000, Objects: 5000}
	a, b := mustGenerator(t, shape), mustGenerator(t, shape)
	shape.Seed = 8
	other := mustGenerator(t, shape)
	for _, kind := range Kinds() {
		for _, i := range []int{0, 1, 19, 20, 4999} {
			// b makes its objects in another order.
			mustObject(t, b, kind, 4999-i)
			x, y := mustEncode(t, mustObject(t, a, kind, i)), mustEncode(t, mustObject(t, b, kind, i))
			if !bytes.Equal(x, y) {
				t.Errorf("%s %d differs between two generators of one shape", kind, i)
			}
			if bytes.Equal(x, mustEncode(t, mustObject(t, other, kind, i))) {
				t.Errorf("%s %d is equal for two seeds", kind, i)
			}
		}
	}
}

func TestSizesAreReached(t *testing.T) {
	for _, size := range []int{2000, 3000, 4000, 6000, 9000, 17_000, 30_000, 100_000, 1_000_000} {
		for _, unbound := range []bool{false, true} {
			g := mustGenerator(t, Shape{Pods: 100_000, PodSize: size, SecretSize: size, ConfigMapSize: size, Unbound: unbound})
			count := max(2, min(50, 300_000/size))
			for n := range count {
				i := n * 1993
				near(t, g.Pod(i), size)
				near(t, g.Secret(i), size)
				near(t, g.ConfigMap(i), size)
			}
		}
	}
}

func near(t *testing.T, obj Object, want int) {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(text); got < want*95/100 || got > want*105/100 {
		t.Errorf("%T %s has %d bytes, want %d within 5 %%", obj, obj.GetName(), got, want)
	}
}

func TestEveryApplicationFits(t *testing.T) {
	for _, size := range []int{1950, 4000, 17_000} {
		g := mustGenerator(t, Shape{Seed: 1, Pods: 10_000, PodSize: size})
		for app := size / 4000; app < len(g.words.apps); app += 1 + size/4000 {
			pod := g.Pod(app * SlicePods)
			near(t, pod, size)
			if size >= 4000 && len(pod.ManagedFields) == 0 {
				t.Errorf("pod %s of %d bytes has no managed fields", pod.Name, size)
			}
		}
	}
}

func TestStoredFormIsTheSerializers(t *testing.T) {
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	serializer := protobuf.NewSerializer(scheme, scheme)
	g := mustGenerator(t, Shape{Pods: 100, Secrets: 1, ConfigMaps: 1})
	for _, kind := range storableKinds() {
		obj := mustObject(t, g, kind, 3)
		value := mustEncode(t, obj)
		decoded, gvk, err := serializer.Decode(value, nil, nil)
		if err != nil {
			t.Fatalf("decode %s: %v", kind, err)
		}
		if *gvk != obj.GetObjectKind().GroupVersionKind() {
			t.Errorf("%s was stored as %s", kind, gvk)
		}
		decoded.GetObjectKind().SetGroupVersionKind(*gvk)
		var again bytes.Buffer
		if err := serializer.Encode(decoded, &again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(value, again.Bytes()) {
			t.Errorf("%s encodes to other bytes than it was decoded from", kind)
		}
		meta, ok := decoded.(Object)
		if !ok || meta.GetName() != obj.GetName() || meta.GetLabels()[LabelSeed] != "0" || meta.GetResourceVersion() != "" {
			t.Errorf("%s has unexpected stored metadata %+v", kind, meta)
		}
	}
	if _, err := EncodeStored(&corev1.Pod{}); err == nil {
		t.Error("an object without a kind was encoded")
	}
}

func TestStorageKeys(t *testing.T) {
	g := mustGenerator(t, Shape{Seed: 3, Pods: 1, Secrets: 1, ConfigMaps: 1})
	pod, secret, cm := g.Pod(0), g.Secret(0), g.ConfigMap(0)
	for _, c := range []struct {
		obj  Object
		want string
	}{
		{g.Namespace(0), "/registry/namespaces/fill-3-00000"},
		{g.ServiceAccount(0), "/registry/serviceaccounts/fill-3-00000/default"},
		{g.Node(0), "/registry/minions/fill-3-node-000000"},
		{pod, "/registry/pods/fill-3-00000/" + pod.Name},
		{secret, "/registry/secrets/fill-3-00000/" + secret.Name},
		{cm, "/registry/configmaps/fill-3-00000/" + cm.Name},
		{g.Deployment(0), "/registry/deployments/fill-3-00000/" + g.Deployment(0).Name},
		{g.ReplicaSet(0), "/registry/replicasets/fill-3-00000/" + pod.OwnerReferences[0].Name},
		{g.Service(0), "/registry/services/specs/fill-3-00000/" + g.Service(0).Name},
		{g.EndpointSlice(0), "/registry/endpointslices/fill-3-00000/" + g.EndpointSlice(0).Name},
		{g.Lease(0), "/registry/leases/kube-node-lease/fill-3-node-000000"},
		{g.Event(0), "/registry/events/fill-3-00000/" + g.Event(0).Name},
	} {
		for _, prefix := range []string{"/registry", "registry/"} {
			if got, err := StorageKey(prefix, c.obj); err != nil || got != c.want {
				t.Errorf("key with prefix %q is %q (%v), want %q", prefix, got, err, c.want)
			}
		}
	}
	if _, err := StorageKey("/registry", &corev1.PodTemplate{}); err == nil {
		t.Error("a pod template got a key")
	}
}

func TestNamesAndGroups(t *testing.T) {
	const pods = 20_000
	g := mustGenerator(t, Shape{Seed: 1, Pods: pods, Namespaces: 33, Nodes: 77})
	names, apps := make(map[string]bool), make(map[string]int)
	slices, groups, shares := make(map[string]int), make(map[string]int), make(map[string]int)
	sliceNamespace, namespaces := make(map[string]string), make(map[string]int)
	for i := range pods {
		pod := g.Pod(i)
		names[pod.Namespace+"/"+pod.Name] = true
		apps[pod.Labels["app"]]++
		groups[pod.Labels[LabelGroup]]++
		shares[pod.Labels[LabelShare]]++
		namespaces[pod.Namespace]++
		slice := pod.Labels[LabelSlice]
		slices[slice]++
		if first, ok := sliceNamespace[slice]; ok && first != pod.Namespace {
			t.Fatalf("slice %s is in two namespaces", slice)
		}
		sliceNamespace[slice] = pod.Namespace
		if i%997 == 0 {
			checkLabels(t, pod)
		}
	}
	if len(names) != pods || len(apps) != 200 || len(namespaces) != 33 {
		t.Errorf("%d names, %d applications, %d namespaces", len(names), len(apps), len(namespaces))
	}
	for slice, n := range slices {
		if n != SlicePods {
			t.Errorf("slice %s has %d pods", slice, n)
		}
	}
	for group, n := range groups {
		if n != GroupPods {
			t.Errorf("group %s has %d pods", group, n)
		}
	}
	for share, n := range shares {
		if n != pods/500 {
			t.Errorf("share %s has %d pods", share, n)
		}
	}
}

func checkLabels(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for key, value := range pod.Labels {
		errs := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if len(errs) > 0 {
			t.Errorf("label %s=%s: %v", key, value, errs)
		}
	}
	if errs := validation.IsDNS1123Label(pod.Name); len(errs) > 0 {
		t.Errorf("name %s: %v", pod.Name, errs)
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("pod %s does not run", pod.Name)
	}
}

func TestManagedFieldsCoverTheObject(t *testing.T) {
	set, err := fieldSet(map[string]any{
		"metadata": metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "1", "a": "2"}},
		"spec": corev1.PodSpec{
			NodeName:        "n",
			SecurityContext: &corev1.PodSecurityContext{},
			Containers: []corev1.Container{{
				Name:  "c",
				Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}},
				Args:  []string{"x"},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}}},` +
		`"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:args":{},"f:name":{},` +
		`"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},` +
		`"f:resources":{}}},"f:nodeName":{},"f:securityContext":{}}}`
	if string(set) != want {
		t.Errorf("got  %s\nwant %s", set, want)
	}
	g := mustGenerator(t, Shape{Pods: 100, PodSize: 17_000})
	for _, i := range []int{0, 50} {
		pod := g.Pod(i)
		first, second := string(pod.ManagedFields[0].FieldsV1.GetRawBytes()), string(pod.ManagedFields[1].FieldsV1.GetRawBytes())
		if !json.Valid([]byte(first)) || !strings.Contains(first, string(pod.OwnerReferences[0].UID)) {
			t.Errorf("managed fields of pod %d lack its owner: %s", i, first)
		}
		if !json.Valid([]byte(second)) || !strings.Contains(second, `"`+pod.Status.PodIP+`\"`) {
			t.Errorf("managed fields of pod %d lack its IP: %s", i, second)
		}
	}
}

func TestBadShapes(t *testing.T) {
	for want, shape := range map[string]Shape{
		"pods is -1":                {Pods: -1},
		"nodes is -2":               {Nodes: -2},
		"pod-size is 300 bytes":     {PodSize: 300},
		"smallest possible size is": {SecretSize: 100},
		"the largest is 1000000":    {ConfigMapSize: 2_000_000},
		"configmap-size is -1 by":   {ConfigMapSize: -1},
	} {
		if _, err := NewGenerator(shape); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", shape, err, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{
		"4000": 4000, "4KB": 4000, "17kb": 17000, "4 KiB": 4096, "1.5MB": 1_500_000, "2k": 2000, " 10B ": 10,
	} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "KB", "-4KB", "4GB", "4KBB", "ten", "NaN", "9999999MB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
}

func BenchmarkPodStored(b *testing.B) {
	g := mustGenerator(b, Shape{Pods: 100_000})
	b.ReportAllocs()
	for i := range b.N {
		b.SetBytes(int64(len(mustEncode(b, g.Pod(i%100_000)))))
	}
}
