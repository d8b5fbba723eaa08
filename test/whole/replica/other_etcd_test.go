package replica

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/test/support/harness"
)

// TestAnotherEtcd gives a replica the etcd of another cluster, and its own with another prefix.
// It does not start.
func TestAnotherEtcd(t *testing.T) {
	t.Parallel()
	upstream, other := startUpstream(t), startUpstream(t)
	kubeconfig := filepath.Join(upstream.DataDir, "admin.kubeconfig")
	for what, flags := range map[string][]string{
		"another cluster": {other.EtcdServers()},
		"another prefix":  {upstream.EtcdServers(), "--etcd-prefix=/wrong"},
	} {
		args := append([]string{"replica", "--kubeconfig=" + kubeconfig, "--cert-dir=" + t.TempDir(), fmt.Sprintf("--secure-port=%d", harness.FreePort(t))}, flags...)
		output, code := harness.Run(t, args...)
		if code == 0 || !strings.Contains(output, "etcd is not that of the upstream") || !strings.Contains(output, "--etcd-prefix") {
			t.Errorf("%s: the replica ended with %d: %s", what, code, output)
		}
	}
}

// TestLikeEtcd gives a replica the etcd of another cluster that has the config map of every cluster
// at the same revision. It does not start.
func TestLikeEtcd(t *testing.T) {
	t.Parallel()
	upstream, other := startUpstream(t), harness.StartEtcd(t).Client()
	const key = "/registry/configmaps/kube-system/extension-apiserver-authentication"
	var published *corev1.ConfigMap
	eventually(t, "the upstream has the config map", func() (err error) {
		published, err = clientset(t, upstream.Config()).CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			return notYet("%v", err)
		}
		return nil
	})
	stored := must(upstream.EtcdClient().Get(t.Context(), key))(t).Kvs[0]
	for must(other.Get(t.Context(), key))(t).Header.Revision < stored.ModRevision-1 {
		must(other.Put(t.Context(), "/registry/filler", ""))(t)
	}
	value := strings.ReplaceAll(string(stored.Value), string(published.UID), string(uuid.NewUUID()))
	if put := must(other.Put(t.Context(), key, value))(t); put.Header.Revision != stored.ModRevision {
		t.Fatalf("the object is at revision %d, want %d", put.Header.Revision, stored.ModRevision)
	}
	output, code := harness.Run(t, "replica", "--kubeconfig="+filepath.Join(upstream.DataDir, "admin.kubeconfig"), "--cert-dir="+t.TempDir(),
		fmt.Sprintf("--secure-port=%d", harness.FreePort(t)), "--etcd-servers="+other.Endpoints()[0])
	if code == 0 || !strings.Contains(output, "etcd is not that of the upstream") || !strings.Contains(output, string(published.UID)) {
		t.Errorf("the replica ended with %d: %s", code, output)
	}
}

// TestForgottenOverride keeps the events of an upstream in an etcd that the replica is not told of.
// Reads of events are passed on, and others are answered.
func TestForgottenOverride(t *testing.T) {
	t.Parallel()
	etcd, events := harness.StartEtcd(t), harness.StartEtcd(t)
	upstream := harness.Start(t, harness.ShortTempDir(t), etcd.EtcdServers(), "--read-path=kubernetes", "--etcd-servers-overrides=/events#"+events.Endpoint)
	client := clientset(t, upstream.Config())
	must(client.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "seen"}, InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "x"},
	}, metav1.CreateOptions{}))(t)
	replica := harness.StartReplica(t, upstream, etcd.EtcdServers())
	same := func(path string) {
		t.Helper()
		ours, theirs := must(fetch(t.Context(), replica.Config(), path))(t), must(fetch(t.Context(), upstream.Config(), path))(t)
		if sameRevision(ours.body) != sameRevision(theirs.body) {
			t.Errorf("%s is %s, and at the upstream %s", path, ours.body, theirs.body)
		}
	}
	eventually(t, "config maps are answered, and events passed on", func() error {
		same("/api/v1/events?resourceVersion=0")
		same("/api/v1/configmaps?resourceVersion=0")
		made := serverreport.ReplicaReport{}
		report := must(fetch(t.Context(), replica.Config(), "/debug/millrace/replica"))(t)
		if err := json.Unmarshal([]byte(report.body), &made); err != nil {
			return fmt.Errorf("%w: %s", err, report.body)
		}
		if made.Answered["LIST"] == 0 || made.PassedOn["other-etcd"] == 0 {
			return notYet("answered %v, passed on %v", made.Answered, made.PassedOn)
		}
		return nil
	})
	for range 10 {
		same("/api/v1/events?resourceVersion=0")
	}
}
