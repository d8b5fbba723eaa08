package kube

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// skipWithoutQuota has the plugin ResourceQuota asked only of namespaces that have a
// quota. Without one it finds nothing to limit, once another goroutine has looked, and
// keeps an evaluator for good of each kind that it was ever asked about. It may limit
// what no quota covers if its configuration says so: then it is asked of all. It finds
// quotas by the same lister, and asks the API as well only as long as that has not
// synced; until then it is asked of all namespaces.
func skipWithoutQuota(factory informers.SharedInformerFactory) admission.Decorator {
	quotas := factory.Core().V1().ResourceQuotas()
	indexer, synced := quotas.Informer().GetIndexer(), quotas.Informer().HasSynced
	return admission.DecoratorFunc(func(plugin admission.Interface, name string) admission.Interface {
		limits, ok := plugin.(admission.ValidationInterface)
		if name != resourcequota.PluginName || !ok {
			return plugin
		}
		return quotaGate{limits, indexer, synced}
	})
}

// quotaGate is ResourceQuota's plugin without a configuration of its own.
type quotaGate struct {
	admission.ValidationInterface
	quotas    cache.Indexer
	hasSynced cache.InformerSynced
}

// Validate implements admission.ValidationInterface.
func (g quotaGate) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if g.hasSynced() {
		quotas, err := g.quotas.IndexKeys(cache.NamespaceIndex, a.GetNamespace())
		if err == nil && len(quotas) == 0 {
			return nil
		}
	}
	return g.ValidationInterface.Validate(ctx, a, o)
}
