package replica

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/replica/document"
	"github.com/millrace/millrace/internal/tier/cache"
)

// services are the APIServices.
var services = apiregistration.Resource("apiservices")

// newDocuments makes the documents of discovery and OpenAPI, and registers the metric of
// their size.
func (r *Replica) newDocuments(tier *tiermount.ReadTier) (*document.Documents, error) {
	var described []*cache.Resource
	for _, gr := range []schema.GroupResource{apiextensions.Resource("customresourcedefinitions"), services} {
		if stored := tier.Decorator.Store(gr); stored != nil {
			described = append(described, stored.Resource())
		}
	}
	documents := document.New(document.Config{
		Door: r.door, Metrics: r.counters,
		Local: func(gv schema.GroupVersion) bool {
			return (isBuiltIn(gv) || r.server.ServesCustom(gv)) && !r.policy.IsHandedOver(gv)
		},
		Changes: func() (sum int64) {
			for _, resource := range described {
				sum += resource.LastChange()
			}
			return sum
		},
	})
	if err := legacyregistry.CustomRegister(&documentsCollector{documents: documents}); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return documents, nil
}

// isBuiltIn reports whether every API server serves a group version by itself, if it serves
// it at all.
func isBuiltIn(gv schema.GroupVersion) bool {
	return gv.Group == apiextensions.GroupName || gv.Group == apiregistration.GroupName || scheme.Scheme.IsVersionRegistered(gv)
}

// documentsCollector reports the memory of documents at the moment of a scrape.
type documentsCollector struct {
	metrics.BaseStableCollector
	documents *document.Documents
}

var _ metrics.StableCollector = (*documentsCollector)(nil)

var documentBytesDesc = metrics.NewDesc("millrace_replica_discovery_bytes", "Bytes of the documents of discovery and OpenAPI that are in memory.", nil, nil, metrics.ALPHA, "")

// DescribeWithStability implements metrics.StableCollector.
func (c *documentsCollector) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- documentBytesDesc }

// CollectWithStability implements metrics.StableCollector.
func (c *documentsCollector) CollectWithStability(ch chan<- metrics.Metric) {
	ch <- metrics.NewLazyConstMetric(documentBytesDesc, metrics.GaugeValue, float64(c.documents.Bytes()))
}
