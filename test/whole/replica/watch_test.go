package replica

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// TestListsAndWatchesContinue lists at the replica and watches at the upstream from the
// list's version, and the other way round, while objects are written through both.
// Nothing is missed and nothing comes twice.
func TestListsAndWatchesContinue(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	for name, flags := range sources(upstream) {
		t.Run(name, func(t *testing.T) {
			replica := harness.StartReplica(t, upstream, flags...)
			behind, before := clientset(t, replica.Config()), clientset(t, upstream.Config())
			continues(t, name+"-down", behind, before)
			continues(t, name+"-up", before, behind)
		})
	}
}

const rounds = 20

// continues lists at one server and watches at another.
func continues(t *testing.T, prefix string, lists, watches kubernetes.Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	writers := []kubernetes.Interface{lists, watches}
	var written []string
	write := func(i int) {
		made := must(writers[i%2].CoreV1().ConfigMaps("default").Create(ctx, configMap(fmt.Sprintf("%s-%d", prefix, i)), metav1.CreateOptions{}))(t)
		written = append(written, made.ResourceVersion)
	}
	for i := range rounds {
		write(i)
	}
	list := must(lists.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}))(t)
	var seen []string
	for i := range list.Items {
		seen = append(seen, list.Items[i].ResourceVersion)
	}
	for i := range rounds {
		write(rounds + i)
	}
	watching := must(watches.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))(t)
	defer watching.Stop()
	for event := range watching.ResultChan() {
		cm, ok := event.Object.(*corev1.ConfigMap)
		if !ok || event.Type != apiwatch.Added {
			t.Fatalf("%s: %v", event.Type, event.Object)
		}
		if seen = append(seen, cm.ResourceVersion); cm.ResourceVersion == written[len(written)-1] {
			break
		}
	}
	for _, version := range written {
		if n := len(slices.DeleteFunc(slices.Clone(seen), func(v string) bool { return v != version })); n != 1 {
			t.Errorf("the object of version %s was seen %d times", version, n)
		}
	}
}

// TestReadsSeeWrites writes at the upstream and reads at the replica without a resource
// version: each read sees the write before it.
func TestReadsSeeWrites(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	for name, flags := range sources(upstream) {
		t.Run(name, func(t *testing.T) {
			replica := harness.StartReplica(t, upstream, flags...)
			writer, reader := clientset(t, upstream.Config()), clientset(t, replica.Config())
			began := time.Now()
			for i := range rounds {
				want := must(writer.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(fmt.Sprintf("%s-%d", name, i)), metav1.CreateOptions{}))(t)
				got := must(reader.CoreV1().ConfigMaps("default").Get(t.Context(), want.Name, metav1.GetOptions{}))(t)
				if got.ResourceVersion != want.ResourceVersion {
					t.Errorf("%s has version %s, want %s", want.Name, got.ResourceVersion, want.ResourceVersion)
				}
				if err := writer.CoreV1().ConfigMaps("default").Delete(t.Context(), want.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				list := must(reader.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{LabelSelector: "!absent"}))(t)
				for j := range list.Items {
					if list.Items[j].Name == want.Name {
						t.Errorf("%s was read after its deletion", want.Name)
					}
				}
			}
			t.Logf("%d rounds in %v", rounds, time.Since(began).Round(time.Millisecond))
		})
	}
}
