package transcode_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/wire/entry"
)

// storedEntry is a stored object.
func storedEntry(stored []byte) *entry.Entry {
	return &entry.Entry{Key: "ns/name", Revision: 42, Value: stored}
}

// shares reports whether two objects have one fingerprint: the second is not encoded.
func shares(t *testing.T, a, b object) bool {
	t.Helper()
	l := newLane(t, rarely, "Kind", a.DeepCopyObject())
	l.send(t, a)
	before := l.encoded
	l.send(t, b)
	return l.encoded == before
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	grace := int64(30)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"note": "a"}, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0))},
		Spec: corev1.PodSpec{
			ServiceAccountName: "a", DeprecatedServiceAccount: "a", TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{
				{Name: "a", Image: "a", Ports: []corev1.ContainerPort{{ContainerPort: 80}}, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": apiresource.MustParse("1")}}},
				{Name: "b", Image: "b", Env: []corev1.EnvVar{{Name: "a", Value: "b"}, {Name: "c", Value: "d"}}},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}},
	}
	change(p)
	return p
}

// TestValuesShareAFingerprint changes values at which Kubernetes does not look.
func TestValuesShareAFingerprint(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"texts": func(p *corev1.Pod) {
			p.Name, p.Labels["app"], p.Annotations["note"], p.Spec.Containers[0].Image = "other", "x", "y", "z:latest"
		},
		"keys":       func(p *corev1.Pod) { p.Labels = map[string]string{"tier": "web"} },
		"times":      func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(time.Unix(2e9, 0)) },
		"numbers":    func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 443 },
		"quantities": func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits["cpu"] = apiresource.MustParse("100m") },
		"order":      func(p *corev1.Pod) { c := p.Spec.Containers; c[0], c[1] = c[1], c[0] },
		"more of the same": func(p *corev1.Pod) {
			p.Spec.Containers[1].Env = append(p.Spec.Containers[1].Env, corev1.EnvVar{Name: "e", Value: "f"})
		},
		"both accounts": func(p *corev1.Pod) { p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount = "b", "b" },
		"addresses":     func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs[0].IP = "10.0.0.9", "10.0.0.9" },
	} {
		if !shares(t, pod(func(*corev1.Pod) {}), pod(change)) {
			t.Errorf("%s: another fingerprint", name)
		}
	}
}

// TestWhatKubernetesLooksAtIsInTheFingerprint changes what defaulting or conversion may ask.
func TestWhatKubernetesLooksAtIsInTheFingerprint(t *testing.T) {
	negative, zero := int64(-1), int64(0)
	for name, change := range map[string]func(*corev1.Pod){
		"set":           func(p *corev1.Pod) { p.GenerateName = "a-" },
		"unset":         func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" },
		"set in a list": func(p *corev1.Pod) { p.Spec.Containers[1].WorkingDir = "/" },
		"enumeration":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"resource": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"memory": apiresource.MustParse("1")}
		},
		"zero quantity": func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits["cpu"] = apiresource.MustParse("0") },
		"annotation":    func(p *corev1.Pod) { p.Annotations["pod.beta.kubernetes.io/init-containers"] = "[]" },
		"negative":      func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &negative },
		"zero":          func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &zero },
		"one container": func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
		"accounts":      func(p *corev1.Pod) { p.Spec.DeprecatedServiceAccount = "b" },
		"addresses":     func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "10.0.0.2" },
		"bool":          func(p *corev1.Pod) { p.Spec.HostNetwork = true },
	} {
		if shares(t, pod(func(*corev1.Pod) {}), pod(change)) {
			t.Errorf("%s: the same fingerprint", name)
		}
	}
}

// TestRelationsOfOtherKinds changes values that conversion compares or parses.
func TestRelationsOfOtherKinds(t *testing.T) {
	namespace := func(name, label string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": label}}}
	}
	node := func(first string, all ...string) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: first, PodCIDRs: all}}
	}
	daemons := func(generation string) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: generation}}}
	}
	deployment := func(annotation string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotation: "1"}}}
	}
	service := func(target intstr.IntOrString) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{TargetPort: target}}}}
	}
	selector := func(key string) *policyv1.PodDisruptionBudget {
		requirement := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
		return &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}}}}
	}
	binding := func(kind string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{Subjects: []rbacv1.Subject{{Kind: kind, Name: "a"}}}
	}
	for name, test := range map[string]struct {
		a, b object
		same bool
	}{
		"namespace's label":       {namespace("a", "a"), namespace("b", "b"), true},
		"namespace's other label": {namespace("a", "a"), namespace("b", "a"), false},
		"node's range":            {node("a", "a", "b"), node("c", "c", "d"), true},
		"node's other range":      {node("a", "a", "b"), node("c", "d", "c"), false},
		"daemon's generation":     {daemons("1"), daemons("22"), true},
		"daemon's odd generation": {daemons("1"), daemons("01"), false},
		"annotation":              {deployment("a"), deployment("b"), true},
		"deprecated annotation":   {deployment("a"), deployment(appsv1.DeprecatedRollbackTo), false},
		"target port":             {service(intstr.FromInt32(80)), service(intstr.FromInt32(443)), true},
		"no target port":          {service(intstr.FromInt32(80)), service(intstr.FromInt32(0)), false},
		"named target port":       {service(intstr.FromInt32(80)), service(intstr.FromString("http")), false},
		"selector":                {selector("a"), selector("b"), true},
		"reserved selector":       {selector("a"), selector("node.kubernetes.io/a"), true},
		"subject":                 {binding("User"), binding("User"), true},
		"other subject":           {binding("User"), binding("ServiceAccount"), false},
	} {
		if shares(t, test.a, test.b) != test.same {
			t.Errorf("%s: shared is not %v", name, test.same)
		}
	}
}
