package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// awaitCheckpointAt waits until a replica has written a checkpoint of a revision or a later
// one. feed is the address of etcd, or that of the resource at the API.
func awaitCheckpointAt(t *testing.T, replica *harness.Server, feed, version string) {
	t.Helper()
	want := must(strconv.Atoi(version))(t)
	eventually(t, "a checkpoint at "+version, func() error {
		if got := counter(t, replica, `millrace_checkpoint_revision{etcd="`+feed+`"}`); got < want {
			return notYet("written at %d", got)
		}
		return nil
	})
}

// feedsOf returns the addresses of the feeds that have config maps.
func feedsOf(upstream *harness.Server, etcdServers string) map[string]string {
	return map[string]string{"etcd": strings.TrimPrefix(etcdServers, "--etcd-servers="), "api": upstream.URL + "/configmaps"}
}

// awaitCheckpoint waits until a replica has written a checkpoint after a time. Writes must
// go on: a state that has not changed is not written again.
func awaitCheckpoint(t *testing.T, dir string, name string, after time.Time) {
	t.Helper()
	eventually(t, "a checkpoint", func() error {
		found, err := filepath.Glob(filepath.Join(dir, "checkpoints", name+".checkpoint"))
		if err != nil || len(found) != 1 {
			return notYet("%d checkpoints, %v", len(found), err)
		}
		info, err := os.Stat(found[0])
		if err == nil && !info.ModTime().After(after) {
			err = notYet("written at %v", info.ModTime())
		}
		return err
	})
}

// checkpointName is the pattern of the checkpoint that has config maps.
func checkpointName(source string) string {
	if source == "etcd" {
		return "etcd-*"
	}
	return "configmaps"
}

// createMaps creates config maps and returns the resource version of the last.
func createMaps(t *testing.T, client kubernetes.Interface, prefix string, n int) (version string) {
	t.Helper()
	for i := range n {
		version = must(client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(fmt.Sprintf("%s-%02d", prefix, i)), metav1.CreateOptions{}))(t).ResourceVersion
	}
	return version
}

// TestResumesFromCheckpoint kills a replica and starts it again with its data directory:
// the upstream is asked for no list, a watch resumes where it was, and what is excluded
// later is no longer on disk.
func TestResumesFromCheckpoint(t *testing.T) {
	t.Parallel()
	upstream, log := startAudited(t)
	admin := clientset(t, upstream.Config())
	for source, flags := range map[string][]string{"etcd": {upstream.EtcdServers()}, "api": {"--follow=configmaps,secrets"}} {
		t.Run(source, func(t *testing.T) {
			dir := filepath.Join(harness.ShortTempDir(t), "data")
			flags = append(flags, "--data-dir="+dir, "--checkpoint-interval=500ms")
			replica := harness.StartReplica(t, upstream, flags...)
			before := createMaps(t, admin, source+"-before", 5)
			awaitReached(t, replica, before)
			awaitCheckpointAt(t, replica, feedsOf(upstream, upstream.EtcdServers())[source], before)
			replica.Kill()
			createMaps(t, admin, source+"-after", 5)

			position := log.position(t)
			replica = harness.StartReplica(t, upstream, flags...)
			client := clientset(t, replica.Config())
			watching := must(client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: before}))(t)
			defer watching.Stop()
			for i := range 5 {
				event := <-watching.ResultChan()
				if cm, ok := event.Object.(*corev1.ConfigMap); !ok || event.Type != apiwatch.Added || cm.Name != fmt.Sprintf("%s-after-%02d", source, i) {
					t.Fatalf("event %d is %s %v", i, event.Type, event.Object)
				}
			}
			if list := must(client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) < 10 {
				t.Errorf("%d objects", len(list.Items))
			}
			if made := log.feeds(t, "configmaps", position); len(made.loads) > 0 || len(made.resumed) > 1 || len(made.confirmations) > 4 {
				t.Errorf("the upstream was asked for %+v", made)
			}
			if output := replica.Output(); !strings.Contains(output, "Feed has loaded its checkpoint") || strings.Contains(output, "Checkpoint is not used") {
				t.Errorf("log of the replica:\n%s", output)
			}
			if source == "api" {
				if err := replica.Terminate(); err != nil {
					t.Fatal(err)
				}
				harness.StartReplica(t, upstream, "--data-dir="+dir)
				if left := must(filepath.Glob(filepath.Join(dir, "checkpoints", "*")))(t); strings.Contains(fmt.Sprint(left), "secrets") {
					t.Errorf("secrets are not followed, and left are %v", left)
				}
			}
		})
	}
}

// TestCheckpointOfAnotherDefinition changes a default in a definition, which changes how objects are
// sent and no revision. The newest object has the field already. The replica does not answer from
// what it wrote to disk before: neither one that runs, nor one that is started again.
func TestCheckpointOfAnotherDefinition(t *testing.T) {
	t.Parallel()
	// A stock server would forget the history of the resource, so that the replica loads it again.
	upstream := harness.Start(t, harness.ShortTempDir(t))
	definitions := must(apiextensionsclient.NewForConfig(upstream.Config()))(t).ApiextensionsV1().CustomResourceDefinitions()
	must(definitions.Create(t.Context(), blocks(), metav1.CreateOptions{}))(t)
	objects := must(dynamic.NewForConfig(upstream.Config()))(t).Resource(schema.GroupVersionResource{Group: toys, Version: "v1", Resource: "blocks"}).Namespace("default")
	var newest string
	for _, block := range []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": toys + "/v1", "kind": "Block", "metadata": map[string]any{"name": "a"}}},
		{Object: map[string]any{"apiVersion": toys + "/v1", "kind": "Block", "metadata": map[string]any{"name": "b"}, "colour": "red"}},
	} {
		eventually(t, "the definition", func() error {
			made, err := objects.Create(t.Context(), block, metav1.CreateOptions{})
			if err != nil {
				return notYet("%v", err)
			}
			newest = made.GetResourceVersion()
			return nil
		})
	}
	dir := filepath.Join(harness.ShortTempDir(t), "data")
	flags := []string{"--follow=blocks." + toys, "--data-dir=" + dir, "--checkpoint-interval=500ms"}
	const path = "/apis/" + toys + "/v1/blocks?resourceVersion=0"
	// setDefault changes the definition, and returns once the upstream sends the default.
	setDefault := func(colour string) {
		t.Helper()
		definition := must(definitions.Get(t.Context(), "blocks."+toys, metav1.GetOptions{}))(t)
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{
			"colour": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"` + colour + `"`)}},
		}
		must(definitions.Update(t.Context(), definition, metav1.UpdateOptions{}))(t)
		eventually(t, "the default "+colour, func() error {
			if sent := must(fetch(t.Context(), upstream.Config(), path))(t); !strings.Contains(sent.body, `"colour":"`+colour+`"`) {
				return notYet("%s", sent.body)
			}
			return nil
		})
	}
	setDefault("blue")
	replica := harness.StartReplica(t, upstream, flags...)
	// agrees waits until the replica answers by itself, with the upstream's bytes.
	agrees := func(when string) {
		t.Helper()
		eventually(t, "the upstream's objects "+when, func() error {
			answered := counter(t, replica, `millrace_read_requests_total{verb="LIST"}`)
			ours, theirs := must(fetch(t.Context(), replica.Config(), path))(t), must(fetch(t.Context(), upstream.Config(), path))(t)
			if counter(t, replica, `millrace_read_requests_total{verb="LIST"}`) == answered {
				return notYet("passed on")
			}
			if ours != theirs {
				return notYet("%d %s, not %d %s", ours.status, ours.body, theirs.status, theirs.body)
			}
			return nil
		})
	}
	agrees("at first")
	awaitCheckpointAt(t, replica, upstream.URL+"/blocks."+toys, newest)
	setDefault("green")
	agrees("after a change")
	awaitCheckpointAt(t, replica, upstream.URL+"/blocks."+toys, newest)
	replica.Kill()
	setDefault("yellow")
	replica = harness.StartReplica(t, upstream, flags...)
	agrees("after a change and a start")
}

const encryption = `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [{"resources": ["secrets"], "providers": [
	{"aescbc": {"keys": [{"name": "key1", "secret": "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="}]}}, {"identity": {}}]}]}`

// TestEncryptedIsNotOnDisk restarts a replica of an etcd with encrypted secrets: they are
// not in its checkpoint, and come from etcd.
func TestEncryptedIsNotOnDisk(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "encryption.json")
	if err := os.WriteFile(config, []byte(encryption), 0o600); err != nil {
		t.Fatal(err)
	}
	encrypts := "--encryption-provider-config=" + config
	upstream := harness.Start(t, harness.ShortTempDir(t), "--read-path=kubernetes", encrypts)
	client := clientset(t, upstream.Config())
	secret, plain := "4cb1a07d6be99f25c83e", "90d7f3a86c1be5247fd1"
	must(client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"v": secret}}, metav1.CreateOptions{}))(t)
	last := must(client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(plain), metav1.CreateOptions{}))(t).ResourceVersion
	dir := filepath.Join(harness.ShortTempDir(t), "data")
	flags := []string{upstream.EtcdServers(), encrypts, "--data-dir=" + dir, "--checkpoint-interval=500ms"}
	replica := harness.StartReplica(t, upstream, flags...)
	awaitReached(t, replica, last)
	awaitCheckpointAt(t, replica, feedsOf(upstream, upstream.EtcdServers())["etcd"], last)
	replica.Kill()
	file := must(filepath.Glob(filepath.Join(dir, "checkpoints", "*.checkpoint")))(t)[0]
	if written := string(must(os.ReadFile(file))(t)); strings.Contains(written, secret) || !strings.Contains(written, plain) {
		t.Errorf("the checkpoint has the secret: %v; the config map: %v", strings.Contains(written, secret), strings.Contains(written, plain))
	}
	replica = harness.StartReplica(t, upstream, flags...)
	got := must(clientset(t, replica.Config()).CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{ResourceVersion: "0"}))(t)
	if string(got.Data["v"]) != secret || !strings.Contains(replica.Output(), "Feed has loaded its checkpoint") {
		t.Errorf("got %s\n%s", got.Data["v"], replica.Output())
	}
}

// awaitReached waits until a replica has a revision.
func awaitReached(t *testing.T, replica *harness.Server, version string) {
	t.Helper()
	client := clientset(t, replica.Config())
	eventually(t, "revision "+version, func() error {
		_, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			err = notYet("%v", err)
		}
		return err
	})
}
