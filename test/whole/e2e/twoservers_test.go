package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/test/support/harness"
)

// TestTwoServers writes through one server and reads from another over the same etcd.
// Every acknowledged write is readable at once.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	first := harness.Start(t, harness.ShortTempDir(t))
	second := harness.Start(t, harness.ShortTempDir(t), first.EtcdServers())
	a, b := clientset(t, first), clientset(t, second)
	existing, err := b.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	check(t, err)
	watcher, err := b.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: existing.ResourceVersion})
	check(t, err)
	defer watcher.Stop()

	const count = 50
	var versions []string
	for n := range count {
		created := create(t, a, configMap(fmt.Sprintf("cm-%03d", n)))
		versions = append(versions, created.ResourceVersion)
		got, err := b.CoreV1().ConfigMaps("default").Get(t.Context(), created.Name, metav1.GetOptions{})
		if err != nil || got.ResourceVersion != created.ResourceVersion {
			t.Fatalf("get from the other server: %v, resource version %q; want %s", err, got.ResourceVersion, created.ResourceVersion)
		}
		list, err := b.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		check(t, err)
		if want := len(existing.Items) + n + 1; len(list.Items) != want {
			t.Fatalf("list from the other server has %d items, want %d", len(list.Items), want)
		}
		// The second server writes, and the first reads at the resource version.
		created.Data["changed"] = "yes"
		changed, err := b.CoreV1().ConfigMaps("default").Update(t.Context(), created, metav1.UpdateOptions{})
		check(t, err)
		versions = append(versions, changed.ResourceVersion)
		got, err = a.CoreV1().ConfigMaps("default").Get(t.Context(), created.Name, metav1.GetOptions{ResourceVersion: changed.ResourceVersion})
		if err != nil || got.ResourceVersion != changed.ResourceVersion {
			t.Fatalf("get at resource version %s: %v, %q", changed.ResourceVersion, err, got.ResourceVersion)
		}
	}
	for n, want := range versions {
		event := nextEvent(t, watcher)
		cm := wantObject(t, event)
		if cm.GetResourceVersion() != want || cm.GetName() != fmt.Sprintf("cm-%03d", n/2) || (event.Type == watch.Added) != (n%2 == 0) {
			t.Fatalf("event %d is %s of %s at %s, want resource version %s", n, event.Type, cm.GetName(), cm.GetResourceVersion(), want)
		}
	}
}
