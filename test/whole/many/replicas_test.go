package many

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// TestRollingRestartOfReplicas restarts the replicas of one depth in turn, under client-go's
// informers that reach them through a balancer, each over a connection of its own. No informer
// may list again, neither at a replica nor at the API server behind them.
func TestRollingRestartOfReplicas(t *testing.T) {
	replicas, informers := 2, 60
	if os.Getenv(longVariable) == "" {
		t.Parallel()
	} else {
		replicas, informers = 3, 2000
	}
	upstream := harness.Start(t, harness.ShortTempDir(t))
	pki := filepath.Join(upstream.DataDir, "pki")
	var all []*harness.Server
	for i := range replicas {
		all = append(all, harness.StartReplica(t, upstream, "--follow=configmaps", "--checkpoint-interval=1s",
			"--data-dir="+filepath.Join(harness.ShortTempDir(t), fmt.Sprint("replica-", i)), "--shutdown-delay-duration=1s",
			"--tls-cert-file="+filepath.Join(pki, "apiserver.crt"), "--tls-private-key-file="+filepath.Join(pki, "apiserver.key")))
	}
	front, calls := newBalancer(t, all...), &informerCalls{}
	writer := clientset(t, upstream).CoreV1().ConfigMaps("default")
	create := func(name string) {
		_, err := writer.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		check(t, err)
	}
	create("first")
	stores := startInformers(t, upstream, front.url(), informers, calls)
	lists := calls.lists.Load()
	for i := range all {
		began := time.Now()
		check(t, all[i].Terminate())
		stopped := time.Since(began)
		name := fmt.Sprint("during-", i)
		create(name)
		eventually(t, "informers have the new object", func(context.Context) error {
			missing := 0
			for _, s := range stores {
				if _, ok, _ := s.GetByKey("default/" + name); !ok {
					missing++
				}
			}
			return differ("number of informers without it", missing, 0)
		})
		all[i] = all[i].Restart()
		t.Logf("replica %d stopped in %v and was ready again after %v", i, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	}
	if again := calls.lists.Load() - lists; again > 0 {
		t.Errorf("%d lists of %d informers came again", again, informers)
	}
	t.Logf("%d watches of %d informers were resumed", calls.resumed.Load(), informers)
}
