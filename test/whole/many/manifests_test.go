package many

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/test/support/harness"
)

// TestManifestsOfManyServers builds deploy/ha and decodes it with Kubernetes' types. Fields
// that these do not know are errors. Pods are restricted, and mount what they have.
func TestManifestsOfManyServers(t *testing.T) {
	t.Parallel()
	built, code := harness.Run(t, "kubectl", "kustomize", "../../../deploy/ha")
	if code != 0 {
		t.Fatalf("kustomize: %s", built)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	pods := map[string]*corev1.PodSpec{}
	for reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(built))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("decode: %v\n%s", err, document)
		}
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			for _, claim := range o.Spec.VolumeClaimTemplates {
				o.Spec.Template.Spec.Volumes = append(o.Spec.Template.Spec.Volumes, corev1.Volume{Name: claim.Name})
			}
			pods[o.Name] = &o.Spec.Template.Spec
		case *appsv1.Deployment:
			pods[o.Name] = &o.Spec.Template.Spec
		}
	}
	for _, name := range []string{"server", "etcd", "haproxy"} {
		pod := pods[name]
		if pod == nil {
			t.Fatalf("there is no %s", name)
		}
		c := pod.Containers[0]
		if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("%s is not restricted", name)
		}
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts %s, which is no volume", name, m.Name)
			}
		}
	}
}
