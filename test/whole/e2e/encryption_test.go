package e2e

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// TestEncryptionAtRest checks that secrets are encrypted in etcd and plain for clients.
func TestEncryptionAtRest(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	for _, provider := range []string{"aescbc", "secretbox"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			config := writeFile(t, filepath.Join(t.TempDir(), "encryption.yaml"), `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - `+provider+`: {keys: [{name: key1, secret: `+key+`}]}
  - identity: {}
`)
			checkEncryption(t, harness.Start(t, harness.ShortTempDir(t), "--encryption-provider-config="+config), provider)
		})
	}
}

func checkEncryption(t *testing.T, s *harness.Server, provider string) {
	secrets := clientset(t, s).CoreV1().Secrets("default")
	watcher, err := secrets.Watch(t.Context(), metav1.ListOptions{})
	check(t, err)
	defer watcher.Stop()
	const plain = "plain to its readers"
	_, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"value": plain},
	}, metav1.CreateOptions{})
	check(t, err)

	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{strings.TrimPrefix(s.EtcdServers(), "--etcd-servers=")}})
	check(t, err)
	defer etcd.Close()
	stored, err := etcd.Get(t.Context(), "/registry/secrets/default/s")
	check(t, err)
	if len(stored.Kvs) != 1 {
		t.Fatalf("etcd holds %d keys, want 1", len(stored.Kvs))
	}
	if value := stored.Kvs[0].Value; bytes.Contains(value, []byte(plain)) || !bytes.HasPrefix(value, []byte("k8s:enc:"+provider+":v1:key1:")) {
		t.Errorf("etcd holds the secret as %.60q", value)
	}
	got, err := secrets.Get(t.Context(), "s", metav1.GetOptions{})
	check(t, err)
	list, err := secrets.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	check(t, err)
	event := nextEvent(t, watcher)
	wantObject(t, event)
	for from, secret := range map[string]*corev1.Secret{"get": got, "list": &list.Items[0], "watch": event.Object.(*corev1.Secret)} {
		if string(secret.Data["value"]) != plain {
			t.Errorf("%s gave %q", from, secret.Data["value"])
		}
	}
}
