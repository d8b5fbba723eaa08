package replica

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// openWatches returns how many watches of config maps a server has.
func openWatches(t *testing.T, s *harness.Server) int {
	t.Helper()
	resp := must(s.HTTPClient().Get(s.URL + "/metrics"))(t)
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(t)
	total := 0
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `resource="configmaps"`) {
			_, value, _ := strings.Cut(line, "} ")
			total += must(strconv.Atoi(strings.TrimSpace(value)))(t)
		}
	}
	return total
}

// TestUpstreamHasOneWatch opens many watches at a replica that follows the API: the
// upstream has one more than before the replica, and each watch gets each event.
func TestUpstreamHasOneWatch(t *testing.T) {
	t.Parallel()
	const watches = 50
	upstream := startUpstream(t)
	before := openWatches(t, upstream)
	replica := harness.StartReplica(t, upstream, "--follow=configmaps")
	client := clientset(t, replica.Config())
	for i := range watches {
		watching := must(client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"}))(t)
		defer watching.Stop()
		if i < watches-1 {
			continue
		}
		must(client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("seen"), metav1.CreateOptions{}))(t)
		if event := <-watching.ResultChan(); event.Object.(*corev1.ConfigMap).Name != "seen" {
			t.Errorf("got %v", event)
		}
	}
	// One for the replica's feed, and three of Kubernetes' informers of the config map that
	// has the authority of client certificates.
	if now := openWatches(t, upstream); now > before+4 {
		t.Errorf("the upstream has %d watches of config maps with %d at the replica, and had %d", now, watches, before)
	}
}

// TestMillraceProvesQuietResources reads a resource that does not change while others do,
// at a replica of a Millrace that follows the API: its bookmarks prove each read.
func TestMillraceProvesQuietResources(t *testing.T) {
	t.Parallel()
	upstream := harness.Start(t, harness.ShortTempDir(t), "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false")
	replica := harness.StartReplica(t, upstream, "--follow=configmaps,pods")
	writer, reader := clientset(t, upstream.Config()), clientset(t, replica.Config())
	for i := range 5 {
		must(writer.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("other-"+strconv.Itoa(i)), metav1.CreateOptions{}))(t)
		must(reader.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}))(t)
	}
	resp := must(replica.HTTPClient().Get(replica.URL + "/metrics"))(t)
	defer resp.Body.Close()
	body := string(must(io.ReadAll(resp.Body))(t))
	if strings.Contains(body, `millrace_read_passed_on_total{`) || !strings.Contains(body, `millrace_read_requests_total{verb="LIST"} 5`) {
		t.Errorf("not all lists were answered:\n%s", regexp.MustCompile(`(?m)^millrace_re.*$`).FindAllString(body, -1))
	}
}

// TestWatchesOutliveTheUpstream restarts the upstream under replicas: a watch at each goes
// on, and what the replica answers ends with the time for which rights are known.
func TestWatchesOutliveTheUpstream(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	token := account(t, clientset(t, upstream.Config()), "reader", nil,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}})
	replica := harness.StartReplica(t, upstream, "--follow=configmaps",
		"--authentication-token-webhook-cache-ttl=1s", "--authorization-webhook-cache-authorized-ttl=1s")
	reader := withToken(replica, t, token)
	const path = "/api/v1/namespaces/default/configmaps?resourceVersion=0"
	status := func(want int) func() error {
		return func() error {
			got, err := fetch(t.Context(), reader, path)
			if err == nil && got.status != want {
				err = notYet("status %d: %.300s", got.status, got.body)
			}
			return err
		}
	}
	eventually(t, "the right to read", status(http.StatusOK))
	watching := must(clientset(t, reader).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"}))(t)
	defer watching.Stop()

	upstream.Kill()
	eventually(t, "the end of rights without the upstream", status(http.StatusServiceUnavailable))
	upstream = upstream.Restart()
	writeAndSee(t, clientset(t, upstream.Config()), watching.ResultChan())
	eventually(t, "the right to read again", status(http.StatusOK))

	t.Run("revoked", func(t *testing.T) {
		admin := clientset(t, upstream.Config())
		if err := admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "reader-reader", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of a right", status(http.StatusForbidden))
	})
}

// writeAndSee writes an object and waits for its event.
func writeAndSee(t *testing.T, writer kubernetes.Interface, events <-chan apiwatch.Event) {
	t.Helper()
	must(writer.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("after"), metav1.CreateOptions{}))(t)
	for event := range events {
		if cm, ok := event.Object.(*corev1.ConfigMap); ok && cm.Name == "after" {
			return
		}
	}
	t.Fatal("the watch ended")
}
