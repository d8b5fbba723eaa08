package differential

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeprotobuf "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// alteredObjects compares objects that old versions of Kubernetes stored in
// etcd. Handlers complete such objects on their way out.
func (p *pair) alteredObjects(t *testing.T, kinds []*kind, random *rand.Rand) {
	services, claims := "/registry/services/specs/team-b/", "/registry/persistentvolumeclaims/team-b/"
	old := map[string]string{
		p.rewrite(t, services+"service-1", func(o runtime.Object) {
			spec := &o.(*corev1.Service).Spec
			spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = nil, nil, nil
		}): "services",
		p.rewrite(t, services+"headless-1", func(o runtime.Object) { o.(*corev1.Service).Spec.ClusterIPs = nil }): "services",
		p.rewrite(t, services+"external-1", func(o runtime.Object) {
			policy := corev1.ServiceInternalTrafficPolicyCluster
			o.(*corev1.Service).Spec.InternalTrafficPolicy = &policy
		}): "services",
		p.rewrite(t, claims+"cloned-1", func(o runtime.Object) { o.(*corev1.PersistentVolumeClaim).Spec.DataSourceRef = nil }): "persistentvolumeclaims",
	}
	rows := allPairs(random)
	now := p.revision()
	var requests []request
	for key, resource := range old {
		k := named(kinds, resource)
		for _, path := range []string{k.path(key), k.listPath("team-b"), k.listPath("team-a"), k.listPath("")} {
			for range 12 {
				r := request{path: path, listPath: k.listPath("")}
				requests = append(requests, rows[random.IntN(len(rows))].apply(r, path != k.path(key), now))
			}
			requests = append(requests, request{path: path, listPath: k.listPath("")})
		}
	}
	p.agree(t, requests)
	want := passedOn("odd-object", 2)
	maps.Copy(want, served("GET", 1))
	maps.Copy(want, served("LIST", 1))
	p.expect(t, []request{
		{path: "/api/v1/services"}, {path: "/api/v1/namespaces/team-a/persistentvolumeclaims"},
		{path: "/api/v1/namespaces/team-b/services/external-1"}, {path: "/api/v1/namespaces/team-b/services/service-2"},
	}, want)
}

// rewrite changes an object in etcd. It returns the object's key as
// "namespace/name".
func (p *pair) rewrite(t *testing.T, key string, change func(runtime.Object)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), etcdTimeout)
	defer cancel()
	stored, err := p.etcd.Get(ctx, key)
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatalf("read %s: %v, %v", key, stored, err)
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(stored.Kvs[0].Value, nil, nil)
	if err != nil {
		t.Fatalf("decode %s: %v", key, err)
	}
	change(obj)
	var buf bytes.Buffer
	encoder := scheme.Codecs.EncoderForVersion(kubeprotobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)
	if err := encoder.Encode(obj, &buf); err != nil {
		t.Fatalf("encode %s: %v", key, err)
	}
	if _, err := p.etcd.Put(ctx, key, buf.String(), clientv3.WithPrevKV()); err != nil {
		t.Fatalf("write %s: %v", key, err)
	}
	parts := bytes.Split([]byte(key), []byte("/"))
	return string(bytes.Join(parts[len(parts)-2:], []byte("/")))
}
