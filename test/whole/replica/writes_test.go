package replica

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// etcdState is what a write to etcd would change.
type etcdState struct {
	revision int64
	leases   int
}

func stateOf(ctx context.Context, t *testing.T, etcd *clientv3.Client) etcdState {
	t.Helper()
	counted := must(etcd.Get(ctx, "/", clientv3.WithFromKey(), clientv3.WithCountOnly()))(t)
	leases := must(etcd.Leases(ctx))(t)
	return etcdState{counted.Header.Revision, len(leases.Leases)}
}

// TestNothingIsWritten starts replicas over the etcd of a server, reads through them, and
// stops them: etcd's revision and leases stay as they are.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	upstream := startUpstream(t)
	etcd := upstream.EtcdClient()
	var before etcdState
	same := 0
	eventually(t, "a quiet upstream", func() error {
		now := stateOf(ctx, t, etcd)
		if same++; now != before {
			before, same = now, 0
		}
		if same < 12 {
			return notYet("revision %d", now.revision)
		}
		return nil
	})
	for name, flags := range sources(upstream) {
		t.Run(name, func(t *testing.T) {
			// The interval would have a server compact at once.
			replica := harness.StartReplica(t, upstream, append(flags, "--etcd-compaction-interval=1s", "--enable-priority-and-fairness", byRBAC)...)
			client := clientset(t, replica.Config())
			for _, version := range []string{"", "0"} {
				must(client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{ResourceVersion: version}))(t)
				must(client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{ResourceVersion: version}))(t)
			}
			if err := replica.Terminate(); err != nil {
				t.Errorf("stop: %v", err)
			}
			if now := stateOf(ctx, t, etcd); now != before {
				t.Errorf("etcd is at %+v, and was at %+v before the replica", now, before)
			}
		})
	}
}
