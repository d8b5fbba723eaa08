package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// passWithoutQuota has the plugin ResourceQuota asked only of namespaces that have a
// quota. Without one it finds nothing to limit, once another goroutine has looked, and
// keeps an evaluator for good of each kind that it was ever asked about. It may limit
// what no quota covers if its configuration says so: then it is asked of all.
func passWithoutQuota(factory informers.SharedInformerFactory) admission.Decorator {
	quotas := factory.Core().V1().ResourceQuotas()
	lister, synced := quotas.Lister(), quotas.Informer().HasSynced
	return admission.DecoratorFunc(func(plugin admission.Interface, name string) admission.Interface {
		limits, ok := plugin.(admission.ValidationInterface)
		if name != resourcequota.PluginName || !ok {
			return plugin
		}
		return quotaGate{limits, lister, synced}
	})
}

// quotaGate is ResourceQuota's plugin without a configuration of its own.
type quotaGate struct {
	admission.ValidationInterface
	quotas corelisters.ResourceQuotaLister
	synced cache.InformerSynced
}

// Validate implements admission.ValidationInterface.
func (g quotaGate) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if g.synced() {
		quotas, err := g.quotas.ResourceQuotas(a.GetNamespace()).List(labels.Everything())
		if err == nil && len(quotas) == 0 {
			return nil
		}
	}
	return g.ValidationInterface.Validate(ctx, a, o)
}
