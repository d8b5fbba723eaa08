package kube

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// maxListSeats is the limit of upstream's estimator for a LIST from a cache.
const maxListSeats = 10

// listCost is a resource, and the seats of a LIST of it: least to most here, before
// upstream.
type listCost struct {
	resource            string
	objects, size       int64
	least, most, before uint64
}

// check calls upstream's estimator with our costs and with its own. Resources of
// example.com are custom.
func (c listCost) check(t *testing.T) {
	t.Helper()
	gr := schema.ParseGroupResource(c.resource)
	tracker := flowcontrolrequest.NewStorageObjectCountTracker()
	stats := storage.Stats{ObjectCount: c.objects, EstimatedAverageObjectSizeBytes: c.size}
	tracker.Set(c.resource, stats)
	req := httptest.NewRequest(http.MethodGet, "/?resourceVersion=0", nil)
	req = req.WithContext(apirequest.WithRequestInfo(req.Context(), &apirequest.RequestInfo{
		IsResourceRequest: true, Verb: "list", APIGroup: gr.Group, Resource: gr.Resource,
	}))
	seats := func(tracker flowcontrolrequest.StorageObjectCountTracker) uint64 {
		estimate := flowcontrolrequest.NewWorkEstimator(tracker.Get, func(*apirequest.RequestInfo) int { return 0 },
			flowcontrolrequest.DefaultWorkEstimatorConfig(), func(string) uint64 { return 0 })
		return estimate(req, "schema", "level").InitialSeats
	}
	own := seats(newListCosts(flowcontrolrequest.NewStorageObjectCountTracker(), func(asked schema.GroupResource) (objects, bytes int64, ok bool) {
		return c.objects, c.objects * c.size, asked == gr && gr.Group != "example.com"
	}, func(asked schema.GroupResource) (storage.Stats, bool) {
		return stats, asked == gr && gr.Group == "example.com"
	}))
	if before := seats(tracker); own < c.least || own > c.most || before != c.before {
		t.Errorf("%s: %d seats, upstream %d; want %d to %d, upstream %d", c.resource, own, before, c.least, c.most, c.before)
	}
}

func TestListCostBySize(t *testing.T) {
	for _, c := range []listCost{
		{"pods", 10_000, 4_000, 4, 5, maxListSeats},
		{"nodes", 1_000, 8_000, 1, 1, maxListSeats},
		{"leases.coordination.k8s.io", 5_000, 450, 1, 1, maxListSeats},
		{"secrets", 1_000, 400_000, maxListSeats, maxListSeats, maxListSeats},
		{"tiny", 10_000, 60, 1, 1, 6},
		{"none", 0, 0, 1, 1, 1},
		{"many.example.com", 10_000, 4_000, maxListSeats, maxListSeats, maxListSeats},
		{"few.example.com", 100, 4_000, 4, 4, 4},
	} {
		c.check(t)
	}
}

func TestListCostBySizeDespiteFeatureGate(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.SizeBasedListCostEstimate, false)
	for _, c := range []listCost{
		{"pods", 10_000, 4_000, 4, 5, maxListSeats},
		{"nodes", 1_000, 8_000, 1, 1, maxListSeats},
		{"secrets", 1_000, 400_000, maxListSeats, maxListSeats, maxListSeats},
		{"none", 0, 0, 1, 1, 1},
		{"few.example.com", 400, 4_000, 4, 4, 4},
	} {
		c.check(t)
	}
}
