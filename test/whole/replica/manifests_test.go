package replica

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/test/support/harness"
)

const manifests = "../../../deploy/replica"

// built returns what kustomize makes of a directory, as text.
func built(t *testing.T, dir string) string {
	t.Helper()
	output, code := harness.Run(t, "kubectl", "kustomize", dir)
	if code != 0 {
		t.Fatalf("kustomize %s: %s", dir, output)
	}
	return output
}

// decoded returns the objects of a document. Fields that Kubernetes does not know are
// errors.
func decoded(t *testing.T, documents string) (objects []runtime.Object) {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(documents))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("decode: %v\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// find returns the objects of a type.
func find[T runtime.Object](objects []runtime.Object) (found []T) {
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// argumentsOf returns the values of a flag in the Deployment.
func argumentsOf(t *testing.T, objects []runtime.Object, flag string) (values []string) {
	t.Helper()
	for _, argument := range find[*appsv1.Deployment](objects)[0].Spec.Template.Spec.Containers[0].Args {
		if value, ok := strings.CutPrefix(argument, flag+"="); ok {
			values = append(values, strings.Split(value, ",")...)
		}
	}
	return values
}

// TestManifestsAreStrict builds each variant and decodes it with Kubernetes' types. Rights
// are those of the resources that are followed, and none with etcd.
func TestManifestsAreStrict(t *testing.T) {
	t.Parallel()
	for dir, wantRoles := range map[string]int{"api": 2, "etcd": 1} {
		objects := decoded(t, built(t, filepath.Join(manifests, dir)))
		if n := len(find[*rbacv1.ClusterRole](objects)); n != wantRoles {
			t.Errorf("%q has %d roles, want %d", dir, n, wantRoles)
		}
		pod := find[*appsv1.Deployment](objects)[0].Spec.Template.Spec
		if c := pod.Containers[0].SecurityContext; !*pod.SecurityContext.RunAsNonRoot || !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation {
			t.Errorf("%q: %+v, %+v", dir, pod.SecurityContext, c)
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("%q mounts %s, which is no volume", dir, mount.Name)
			}
		}
		if dir == "api" {
			compareRights(t, objects)
		}
	}
	file := string(must(os.ReadFile(filepath.Join(manifests, "impersonation", "rbac.yaml")))(t))
	if n := len(decoded(t, file)); n != 2 {
		t.Errorf("the component has %d objects", n)
	}
}

// compareRights compares the resources of the role with those of --follow.
func compareRights(t *testing.T, objects []runtime.Object) {
	t.Helper()
	want := append(argumentsOf(t, objects, "--follow"), "customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io")
	var got []string
	for _, role := range find[*rbacv1.ClusterRole](objects) {
		if role.Name != "millrace-replica-follow" {
			continue
		}
		for _, rule := range role.Rules {
			if !slices.Equal(rule.Verbs, []string{"list", "watch"}) {
				t.Errorf("rule has the verbs %v", rule.Verbs)
			}
			for _, resource := range rule.Resources {
				got = append(got, schema.GroupResource{Group: rule.APIGroups[0], Resource: resource}.String())
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the role has %v, and the replica follows %v", got, want)
	}
}

// TestManifestsGiveTheRights applies the manifests to a server, and runs a replica in front
// of it with the flags of the Deployment and the token of its service account: it follows
// every resource, and nothing is denied.
func TestManifestsGiveTheRights(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	objects := decoded(t, built(t, filepath.Join(manifests, "api")))
	output, code := harness.Run(t, "kubectl", "--kubeconfig="+upstream.Kubeconfig(), "apply", "--validate=strict", "-k", filepath.Join(manifests, "api"))
	if code != 0 {
		t.Fatalf("apply: %s", output)
	}
	admin := clientset(t, upstream.Config())
	account := find[*corev1.ServiceAccount](objects)[0]
	token := must(admin.CoreV1().ServiceAccounts(account.Namespace).CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	follow := argumentsOf(t, objects, "--follow")
	kubeconfig := kubeconfigFor(t, upstream, token.Status.Token)
	replica := harness.StartReplica(t, upstream, "--kubeconfig="+kubeconfig, "--follow="+strings.Join(follow, ","))
	// The kubeconfig that the replica wrote has the token of its service account.
	config := replica.Config()
	config.BearerToken = ""
	config.CertData, config.KeyData = upstream.Config().CertData, upstream.Config().KeyData
	metrics := must(fetch(t.Context(), config, "/metrics"))(t).body
	for _, resource := range append(follow, "customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io") {
		line := fmt.Sprintf("millrace_feed_healthy{etcd=%q} 1", upstream.URL+"/"+resource)
		if !strings.Contains(metrics, line) {
			t.Errorf("no line %s in\n%s", line, regexp.MustCompile(`(?m)^millrace_feed_healthy.*$`).FindAllString(metrics, -1))
		}
	}
	if strings.Contains(replica.Output(), "forbidden") {
		t.Errorf("something was denied:\n%s", replica.Output())
	}
}
