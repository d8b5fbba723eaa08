package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// acknowledgedWrites are the creations that a server acknowledged.
type acknowledgedWrites struct {
	mu struct {
		sync.Mutex
		// versions are the resource versions of objects, by name.
		versions map[string]string
	}
	// enough is closed when the number of writes reaches the goal.
	enough chan struct{}
}

func (a *acknowledgedWrites) add(cm *corev1.ConfigMap, goal int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.versions[cm.Name] = cm.ResourceVersion
	if len(a.mu.versions) == goal {
		close(a.enough)
	}
}

// writeUntilError creates config maps from several goroutines, each until a request of
// it fails.
func writeUntilError(ctx context.Context, client kubernetes.Interface, goal int) (*acknowledgedWrites, *sync.WaitGroup) {
	a := &acknowledgedWrites{enough: make(chan struct{})}
	a.mu.versions = map[string]string{}
	var writers sync.WaitGroup
	for writer := range 4 {
		writers.Go(func() {
			for n := 0; ; n++ {
				cm, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap(fmt.Sprintf("w%d-%d", writer, n)), metav1.CreateOptions{})
				if err != nil {
					return
				}
				a.add(cm, goal)
			}
		})
	}
	return a, &writers
}

// TestKillDuringWrites kills a server during writes. After the next start all writes that
// it acknowledged are stored, and an informer from before catches up.
func TestKillDuringWrites(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	client := clientset(t, s)
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("informer did not sync")
	}
	written, writers := writeUntilError(t.Context(), client, 300)
	select {
	case <-written.enough:
	case <-t.Context().Done():
	}
	s.Kill()
	writers.Wait()

	s = s.Restart()
	stored := versions(t, client)
	for name, version := range written.mu.versions {
		if stored["default/"+name] != version {
			t.Errorf("config map %s was acknowledged with resource version %s and is stored with %q", name, version, stored["default/"+name])
		}
	}
	created := create(t, client, configMap("after"))
	if output, code := harness.Run(t, "kubectl", "--data-dir="+s.DataDir, "get", "configmap", "after", "-o", "jsonpath={.metadata.resourceVersion}"); code != 0 || !strings.HasSuffix(output, created.ResourceVersion) {
		t.Errorf("kubectl get: code %d, output %q; want resource version %s", code, output, created.ResourceVersion)
	}
	eventually(t, func(context.Context) error {
		known := map[string]string{}
		for _, obj := range informer.GetStore().List() {
			cm := obj.(*corev1.ConfigMap)
			known[cm.Namespace+"/"+cm.Name] = cm.ResourceVersion
		}
		if want := versions(t, client); !maps.Equal(known, want) {
			return fmt.Errorf("informer holds %d objects, the store %d, or other versions of them", len(known), len(want))
		}
		return nil
	})
}

// versions returns the resource versions of all config maps, by namespace and name.
func versions(t *testing.T, client kubernetes.Interface) map[string]string {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list config maps: %v", err)
	}
	found := map[string]string{}
	for _, cm := range list.Items {
		found[cm.Namespace+"/"+cm.Name] = cm.ResourceVersion
	}
	return found
}
