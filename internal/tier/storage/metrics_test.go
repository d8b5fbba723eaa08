package storage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/tier/storage"
)

// TestForgetMetrics checks that no series of a resource is left, and those of others are.
func TestForgetMetrics(t *testing.T) {
	etcdmetrics.Register()
	cachermetrics.Register()
	gone, other := schema.GroupResource{Group: "gone.example", Resource: "gones"}, schema.GroupResource{Group: "other.example", Resource: "others"}
	for _, gr := range []schema.GroupResource{gone, other} {
		etcdmetrics.RecordEtcdRequest("create", gr, nil, time.Now())
		etcdmetrics.RecordEtcdRequest("listWithCount", gr, errors.New("failed"), time.Now())
		cachermetrics.EventsReceivedCounter.WithLabelValues(gr.Group, gr.Resource).Inc()
		cachermetrics.WatchCacheReadWait.WithLabelValues(gr.Group, gr.Resource).Observe(1)
		cachermetrics.ConsistentReadTotal.WithLabelValues(gr.Group, gr.Resource, "true", "false").Inc()
	}
	before := metricsNaming(t, other.Group)
	if len(before) == 0 || len(metricsNaming(t, gone.Group)) != len(before) {
		t.Fatalf("there are %d and %d metrics at first, want the same number", len(metricsNaming(t, gone.Group)), len(before))
	}
	if err := storage.ForgetMetrics(map[schema.GroupResource]bool{gone: true}); err != nil {
		t.Fatal(err)
	}
	if left := metricsNaming(t, gone.Group); len(left) > 0 {
		t.Errorf("metrics are left: %s", strings.Join(left, ", "))
	}
	if left := metricsNaming(t, other.Group); len(left) != len(before) {
		t.Errorf("another resource has %d of its %d metrics left, want all", len(left), len(before))
	}
}

// metricsNaming lists the metrics that have a label with a value.
func metricsNaming(t *testing.T, value string) []string {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetValue() == value {
					found = append(found, family.GetName())
				}
			}
		}
	}
	return found
}
