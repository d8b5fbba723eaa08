package replica

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/harness"
)

// TestDepths reads at a replica of a replica. It knows its depth, has bookmarks on request for
// a quiet resource, and asks for the newest revision once for all reads of a moment.
func TestDepths(t *testing.T) {
	t.Parallel()
	log, flags := audited(t)
	root := harness.Start(t, harness.ShortTempDir(t), append(flags, "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false")...)
	admin := clientset(t, root.Config())
	token := account(t, admin, "reader", []string{"cluster-admin"})
	createMaps(t, admin, "quiet", 1)
	near := harness.StartReplica(t, root, "--follow=configmaps")
	far := harness.StartReplica(t, near, "--follow=configmaps", "--kubeconfig="+kubeconfigFor(t, near, token))
	for i, r := range []*harness.Server{near, far} {
		if depth := counter(t, r, "millrace_replica_depth"); depth != i+1 {
			t.Errorf("depth %d calls itself %d", i+1, depth)
		}
	}
	config := withToken(far, t, token)

	client := must(rest.HTTPClientFor(config))(t)
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, far.URL+"/api/v1/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion=0&millraceBookmarkInterval=100ms", nil))(t)
	resp := must(client.Do(req))(t)
	defer resp.Body.Close()
	if depth := resp.Header.Get("X-Millrace-Depth"); depth != "2" || resp.Header.Get("X-Millrace-Bookmark-Interval") != "100ms" {
		t.Errorf("the headers of a watch are %v", resp.Header)
	}
	other := must(admin.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}))(t)
	written := must(strconv.ParseInt(other.ResourceVersion, 10, 64))(t)
	frames := must(watchcheck.NewReader(resp.Body, resp.Header.Get("Content-Type")))(t)
	for {
		_, frame, err := frames.Next()
		if err != nil {
			t.Fatal(err)
		}
		if frame.Type == watchcheck.Bookmark && frame.Revision >= written {
			break
		}
	}

	const readers, rounds = 20, 3
	reader, position := clientset(t, config), log.position(t)
	for range rounds {
		var reading sync.WaitGroup
		for range readers {
			reading.Go(func() {
				if list, err := reader.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) == 0 {
					t.Errorf("%d objects, %v", len(list.Items), err)
				}
			})
		}
		reading.Wait()
	}
	// Reads that come while a check is under way wait for the next one, and each replica may
	// make some more.
	if made := log.feeds(t, "configmaps", position); len(made.loads) > 0 || len(made.confirmations) > readers*rounds/4 {
		t.Errorf("%d reads cost the root %d checks and %v", readers*rounds, len(made.confirmations), made.loads)
	}
}
