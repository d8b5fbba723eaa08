package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// Priority and fairness estimates the work of a LIST in seats. Upstream takes one seat for
// each 100 kB of stored objects, because objects are decoded and encoded there. If the
// feature gate SizeBasedListCostEstimate is off, it takes one for each 100 objects. Sent
// from bytes, a LIST costs about 0.6 ms of CPU per MB and no memory (docs/bench/list.md).
// So one seat stands for 10 MB here. Seats stay proportional to bytes, and overload is
// queued as before.
//
// Upstream: k8s.io/apiserver/pkg/util/flowcontrol/request.listWorkEstimator; compare at each upgrade.
const (
	seatBytes         = 10_000_000
	upstreamSeatBytes = 100_000
	upstreamSeatCount = 100
)

// listCosts reports smaller or fewer objects to the estimator than a resource has, if it is
// a built-in one that the cache holds. All others, such as custom resources, cost what they
// cost upstream.
type listCosts struct {
	flowcontrolrequest.StorageObjectCountTracker
	// cachedSize returns the number and the bytes of the objects that the cache holds.
	// Upstream's tracker is up to a minute old, and has no sizes in the first minute.
	cachedSize func(schema.GroupResource) (objects, bytes int64, ok bool)
	// customStats returns the number of objects of a custom resource, and their size.
	customStats func(schema.GroupResource) (storage.Stats, bool)
	// bySize says that SizeBasedListCostEstimate is on.
	bySize bool
}

func newListCosts(tracker flowcontrolrequest.StorageObjectCountTracker, cachedSize func(schema.GroupResource) (objects, bytes int64, ok bool),
	customStats func(schema.GroupResource) (storage.Stats, bool)) listCosts {
	return listCosts{tracker, cachedSize, customStats, utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate)}
}

// Get implements flowcontrolrequest.StorageObjectCountTracker.
func (c listCosts) Get(resource string) (storage.Stats, error) {
	gr := schema.ParseGroupResource(resource)
	objects, bytes, ok := c.cachedSize(gr)
	if !ok {
		if stats, ok := c.customStats(gr); ok {
			return stats, nil
		}
		return c.StorageObjectCountTracker.Get(resource)
	}
	if !c.bySize {
		return storage.Stats{ObjectCount: divideUp(bytes, seatBytes/upstreamSeatCount)}, nil
	}
	// The estimator takes objects without a size for the largest ones. So the size must not
	// be rounded down to 0.
	size := divideUp(bytes, max(objects, 1)*(seatBytes/upstreamSeatBytes))
	return storage.Stats{ObjectCount: objects, EstimatedAverageObjectSizeBytes: size}, nil
}

func divideUp(n, per int64) int64 { return (n + per - 1) / per }
