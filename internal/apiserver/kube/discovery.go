package kube

import (
	"fmt"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/millrace/millrace/internal/apiserver/discovery"
)

// newDiscovery makes discovery documents that are encoded as Kubernetes' servers encode
// them.
func newDiscovery() (*discovery.Server, error) {
	return discovery.New(discovery.Config{Aggregator: aggregatorscheme.Codecs, Extensions: apiextensionsapiserver.Codecs})
}

// useDiscovery gives all servers our manager of the aggregated document. It returns false
// if Kubernetes' manager stays.
//
// With --peer-ca-file, servers tell one another what they serve. Kubernetes then merges
// that into its own document, and finds its manager by type. So Kubernetes' manager stays,
// and custom resources are reported to it.
func useDiscovery(config *app.Config, d *discovery.Server) bool {
	control := config.KubeAPIs.ControlPlane
	if control.Extra.PeerProxy != nil {
		if m := control.Generic.AggregatedDiscoveryGroupManager; m != nil {
			d.Custom().SetManager(m.WithSource(aggregated.CRDSource))
		}
		return false
	}
	manager := d.Manager()
	control.Generic.AggregatedDiscoveryGroupManager = manager
	config.ApiExtensions.GenericConfig.AggregatedDiscoveryGroupManager = manager
	config.Aggregator.GenericConfig.AggregatedDiscoveryGroupManager = manager
	return true
}

// followAPIServices makes discovery follow the APIServices of the aggregator.
func followAPIServices(aggregator *aggregatorapiserver.APIAggregator, d *discovery.Server) error {
	informer := aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Informer()
	if _, err := informer.AddEventHandler(d.Services().Handler()); err != nil {
		return fmt.Errorf("follow APIServices: %w", err)
	}
	return nil
}
