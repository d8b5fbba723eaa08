package replica

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/test/support/harness"
)

// informersVariable has the number of informers of TestUpgradeUnderInformers.
const informersVariable = "MILLRACE_UPGRADE_INFORMERS"

// TestUpgradeUnderInformers upgrades the upstream by a minor version under informers. Each gets every
// change behind that with the new field, and none lists at the upstream. The replica does once, in
// the form that they read.
func TestUpgradeUnderInformers(t *testing.T) {
	t.Parallel()
	informers := 50
	if given := os.Getenv(informersVariable); given != "" {
		informers = must(strconv.Atoi(given))(t)
	}
	stock, log := startAudited(t)
	client := clientset(t, stock.Config())
	must(client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))(t)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		must(client.CoreV1().Pods("default").Create(t.Context(), podOn(name, "node"), metav1.CreateOptions{}))(t)
	}
	var upgraded atomic.Bool
	upstream := harness.StartChangingVersionProxy(t, stock, 0, func(path string, line []byte) []byte {
		if !upgraded.Load() {
			return line
		}
		return addFutureField(path, line)
	})
	replica := harness.StartReplica(t, upstream.Server)
	stores := startInformers(t, replica.Config(), informers)
	have := func(changed bool) func() error {
		return func() error {
			for i, store := range stores {
				for _, name := range names {
					if err := checkPod(store, name, changed); err != nil {
						return notYet("informer %d: %v", i, err)
					}
				}
			}
			return nil
		}
	}
	eventually(t, "informers have all pods", have(false))
	position := log.position(t)
	upgraded.Store(true)
	upstream.Upgrade(1)
	for _, name := range names {
		must(client.CoreV1().Pods("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`), metav1.PatchOptions{}))(t)
	}
	eventually(t, "informers have the changed pods, with the new field", have(true))
	asked := log.feeds(t, "pods", position)
	t.Logf("%d informers; the upstream was asked for %+v", informers, asked)
	if len(asked.loads) > 1 {
		t.Errorf("the upstream was asked for all pods %d times, want once: %v", len(asked.loads), asked.loads)
	}
	if n := log.count(t, position, func(line string) bool {
		return strings.Contains(line, `"userAgent":"`+informerAgent) && strings.Contains(line, `"stage":"RequestReceived"`) &&
			(strings.Contains(line, `"verb":"list"`) || strings.Contains(line, "sendInitialEvents"))
	}); n > 0 {
		metrics := must(fetch(t.Context(), replica.Config(), "/metrics"))(t)
		passed := regexp.MustCompile(`(?m)^millrace_(read|replica)_passed_on_total.*$`).FindAllString(metrics.body, -1)
		t.Errorf("informers have listed %d times at the upstream; the replica has passed on %s", n, passed)
	}
}

// checkPod returns an error unless a store has a pod, as it was changed or not. A changed one must
// have the field of the new version.
func checkPod(store cache.Store, name string, changed bool) error {
	pod, exists, err := store.GetByKey("default/" + name)
	if err != nil || !exists {
		return fmt.Errorf("no pod %s: %w", name, err)
	}
	object, _ := pod.(*unstructured.Unstructured)
	_, field, err := unstructured.NestedMap(object.Object, "spec", "fieldOfTheFuture")
	if isChanged := object.GetLabels()["changed"] != ""; err != nil || isChanged != changed || changed && !field {
		return fmt.Errorf("pod %s is changed %v, with the field %v, %w", name, isChanged, field, err)
	}
	return nil
}

const informerAgent = "upgraded-informer"

// startInformers starts informers of pods, which keep objects as they are sent.
func startInformers(t *testing.T, config *rest.Config, n int) (stores []cache.Store) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = informerAgent, -1
	pods := must(dynamic.NewForConfig(config))(t).Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for range n {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return pods.Watch(ctx, o)
			},
		}, &unstructured.Unstructured{}, store, cache.ReflectorOptions{})
		go reflector.RunWithContext(ctx)
		stores = append(stores, store)
	}
	return stores
}
