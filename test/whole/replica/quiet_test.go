package replica

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// TestInformersOfAQuietResource opens many informers at once in front of a stock server. Their
// resource does not change, and another one has: the replica has to find out that it holds
// the newest state. It asks once for all of them, but for the first few, which it passes on.
func TestInformersOfAQuietResource(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	must(admin.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("quiet"), metav1.CreateOptions{}))(t)
	replica := harness.StartReplica(t, upstream, "--follow=configmaps")
	must(admin.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}))(t)
	client := clientset(t, unlimited(replica.Config()))
	var informers sync.WaitGroup
	for i := range 200 {
		informers.Go(func() {
			if err := beginsWith(t, client, "quiet"); err != nil {
				t.Errorf("informer %d: %v", i, err)
			}
		})
	}
	informers.Wait()
	if passedOn := counter(t, replica, `millrace_read_passed_on_total{reason="unproven"}`); passedOn > 100 {
		t.Errorf("%d of 200 watches were passed on", passedOn)
	}
}

// beginsWith opens a watch that begins with all config maps, and returns an error unless one
// of a name is among them.
func beginsWith(t *testing.T, client kubernetes.Interface, name string) error {
	initial := true
	watching, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &initial, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	if err != nil {
		return err
	}
	defer watching.Stop()
	found := false
	for event := range watching.ResultChan() {
		cm, ok := event.Object.(*corev1.ConfigMap)
		switch {
		case !ok:
			return fmt.Errorf("%s: %v", event.Type, event.Object)
		case event.Type == apiwatch.Bookmark && !found:
			return fmt.Errorf("%s is not among the initial objects", name)
		case event.Type == apiwatch.Bookmark:
			return nil
		}
		found = found || cm.Name == name
	}
	return fmt.Errorf("the watch ended without its bookmark")
}
