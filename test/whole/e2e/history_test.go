package e2e

import (
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/test/support/harness"
)

// TestWatchAcrossRestart kills and restarts a server. Watches from older resource versions
// get every event since, as if the server had never been away.
func TestWatchAcrossRestart(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	client, custom := clientset(t, s), newCustomClients(t, s)
	custom.define(t, map[string]apiextensionsv1.JSONSchemaProps{"color": stringSchema})
	custom.create(t, "before", map[string]any{})
	widgets, err := custom.widgets("v1").List(t.Context(), metav1.ListOptions{})
	check(t, err)
	create(t, client, configMap("before"))
	existing, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	check(t, err)

	var want []string
	expectEvent := func(event watch.EventType, obj metav1.Object) {
		want = append(want, fmt.Sprint(event, " ", obj.GetName(), " ", obj.GetResourceVersion()))
	}
	for n := range 20 {
		created := create(t, client, configMap(fmt.Sprint("cm-", n)))
		expectEvent(watch.Added, created)
		created.Data["changed"] = "yes"
		changed, err := client.CoreV1().ConfigMaps("default").Update(t.Context(), created, metav1.UpdateOptions{})
		check(t, err)
		expectEvent(watch.Modified, changed)
	}
	red := custom.create(t, "red", map[string]any{"color": "red"})
	check(t, custom.widgets("v1").Delete(t.Context(), "before", metav1.DeleteOptions{}))

	s.Kill()
	s = s.Restart()
	client, custom = clientset(t, s), newCustomClients(t, s)
	expectEvent(watch.Added, create(t, client, configMap("after")))
	watcher, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: existing.ResourceVersion})
	check(t, err)
	defer watcher.Stop()
	for n, line := range want {
		event := nextEvent(t, watcher)
		cm := wantObject(t, event)
		if got := fmt.Sprint(event.Type, " ", cm.GetName(), " ", cm.GetResourceVersion()); got != line {
			t.Fatalf("event %d is %s, want %s", n, got, line)
		}
	}

	resumed, err := custom.widgets("v1beta1").Watch(t.Context(), metav1.ListOptions{ResourceVersion: widgets.GetResourceVersion()})
	check(t, err)
	defer resumed.Stop()
	if event := nextEvent(t, resumed); event.Type != watch.Added || wantObject(t, event).GetResourceVersion() != red.GetResourceVersion() {
		t.Errorf("first event of the custom resource is %v %v, want the addition at %s", event.Type, event.Object, red.GetResourceVersion())
	}
	if event := nextEvent(t, resumed); event.Type != watch.Deleted || wantObject(t, event).GetName() != "before" {
		t.Errorf("second event of the custom resource is %v %v, want the deletion", event.Type, event.Object)
	}
}
