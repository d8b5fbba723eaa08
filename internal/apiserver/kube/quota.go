package kube

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// skipWithoutQuota skips the admission plugin ResourceQuota in namespaces that have no
// quota. There it finds nothing to limit. But it makes another goroutine look, and keeps
// an evaluator for ever for each kind that it was asked about.
//
// A configuration file may let the plugin limit what no quota covers, so this decorator
// is only used without a configuration file. The plugin finds quotas with the informer that
// is used here. Until that informer has synced, the plugin asks the API, and is not skipped.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota.QuotaAdmission.Validate; compare at each upgrade.
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

// quotaGate is the plugin ResourceQuota, which it calls only where there may be a quota.
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
