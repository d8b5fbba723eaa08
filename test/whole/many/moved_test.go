package many

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/test/support/harness"
)

// TestEventsMove moves the resource events to an etcd of its own under writes and informers, as
// docs/runbooks.md says. Informers of config maps go on where they were. Those of events,
// whose revisions mean nothing to the new etcd, are told so and list again. In the end all have
// what there is.
func TestEventsMove(t *testing.T) {
	t.Parallel()
	const count = 10
	main, own := harness.StartEtcd(t), harness.StartEtcd(t)
	server := harness.Start(t, harness.ShortTempDir(t), main.EtcdServers())
	client := clientset(t, server)
	written := &churn{client: client}
	for range 200 { // the new etcd must not reach these revisions by chance
		written.write(t.Context())
	}
	mapCalls, eventCalls := &informerCalls{}, &informerCalls{}
	maps := startInformers(t, server, server.URL, count, mapCalls)
	events := startInformersOf(t, server, server.URL, count, eventCalls, func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().Events().Informer()
	})
	mapLists, eventLists := mapCalls.lists.Load(), eventCalls.lists.Load()
	stop := written.run(t)
	defer stop()

	check(t, server.Terminate())
	server = server.RestartWith("--etcd-servers-overrides=/events#" + own.Endpoint)
	before := written.made.Load()
	eventually(t, "writes go on", func(context.Context) error {
		if made := written.made.Load() - before; made < 20 {
			return fmt.Errorf("%d were made", made)
		}
		return nil
	})
	stop()
	eventually(t, "informers have what there is", func(ctx context.Context) error {
		mapList, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		eventList, err := client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(eventList.Items) == 0 {
			return fmt.Errorf("there is no event")
		}
		for i := range count {
			if err := differ("the number of config maps of an informer", len(maps[i].ListKeys()), len(mapList.Items)); err != nil {
				return err
			}
			for _, e := range eventList.Items {
				if _, ok, _ := events[i].GetByKey("default/" + e.Name); !ok {
					return fmt.Errorf("an informer has no event %s", e.Name)
				}
			}
			if err := differ("the number of events of an informer", len(events[i].ListKeys()), len(eventList.Items)); err != nil {
				return err
			}
		}
		return nil
	})
	if again := mapCalls.lists.Load() - mapLists; again > 0 {
		t.Errorf("informers of config maps listed %d times again", again)
	}
	if again := eventCalls.lists.Load() - eventLists; again < count {
		t.Errorf("%d informers of events listed %d times again", count, again)
	}
	t.Logf("%d writes; informers of events listed %d times again", written.made.Load(), eventCalls.lists.Load()-eventLists)
}

// churn creates config maps and events in turn.
type churn struct {
	client  kubernetes.Interface
	next    int
	made    atomic.Int64
	stopped sync.Once
	writing sync.WaitGroup
}

// write creates one object. Errors are the test's faults.
func (c *churn) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	meta := metav1.ObjectMeta{Name: fmt.Sprint("made-", c.next), Namespace: "default"}
	var err error
	if c.next%2 == 0 {
		_, err = c.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
	} else {
		_, err = c.client.CoreV1().Events("default").Create(ctx, &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}, metav1.CreateOptions{})
	}
	if c.next++; err == nil {
		c.made.Add(1)
	}
}

// run writes until stop is called.
func (c *churn) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	c.writing.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.write(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { c.stopped.Do(func() { cancel(); c.writing.Wait() }) }
}
