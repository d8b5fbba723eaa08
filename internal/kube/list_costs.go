package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// Priority and fairness counts the work of a LIST in seats, one for each 100 kB
// of stored objects, or with the feature gate SizeBasedListCostEstimate off one
// for each 100 objects: it takes them to be decoded and encoded. Sent from bytes
// they cost some 0.6 ms of CPU per MB and no memory (docs/bench/list.md), so that
// a seat is worth 10 MB. Seats stay proportional to bytes, and an overload is
// queued as before.
const (
	seatBytes         = 10_000_000
	upstreamSeatBytes = 100_000
	upstreamSeatCount = 100
)

// listCosts tells the estimator of smaller or fewer objects than there are in a
// resource whose lists are sent from bytes. Others, such as custom ones, cost
// what they cost upstream.
type listCosts struct {
	flowcontrolrequest.StorageObjectCountTracker
	// cachedSize returns how many objects of how many bytes the cache holds. The tracker
	// knows what there was up to a minute ago, and no sizes for the first one.
	cachedSize func(schema.GroupResource) (objects, bytes int64, ok bool)
	// customStats returns what there is of a custom resource.
	customStats func(schema.GroupResource) (storage.Stats, bool)
	bySize      bool
}

func newListCosts(tracker flowcontrolrequest.StorageObjectCountTracker, held func(schema.GroupResource) (objects, bytes int64, ok bool),
	custom func(schema.GroupResource) (storage.Stats, bool)) listCosts {
	return listCosts{tracker, held, custom, utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate)}
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
	// The estimator takes objects without size for the largest: none has less
	// than a byte.
	size := divideUp(bytes, max(objects, 1)*(seatBytes/upstreamSeatBytes))
	return storage.Stats{ObjectCount: objects, EstimatedAverageObjectSizeBytes: size}, nil
}

func divideUp(n, per int64) int64 { return (n + per - 1) / per }
