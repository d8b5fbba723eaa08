package kube

import (
	"fmt"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/millrace/millrace/internal/discovery"
)

// newDiscovery makes discovery that encodes as Kubernetes' servers do.
func newDiscovery() (*discovery.Server, error) {
	return discovery.New(discovery.Config{Aggregator: aggregatorscheme.Codecs, Extensions: apiextensionsapiserver.Codecs})
}

// useDiscovery gives all servers the manager. Where servers tell one another
// what they serve (--peer-ca-file), Kubernetes merges that into its own document
// and finds it by its type: that manager stays, and is told of custom resources.
// It reports whether ours is used.
func useDiscovery(config *app.Config, d *discovery.Server) bool {
	control := config.KubeAPIs.ControlPlane
	if control.Extra.PeerProxy != nil {
		if m := control.Generic.AggregatedDiscoveryGroupManager; m != nil {
			d.Custom().Tell(m.WithSource(aggregated.CRDSource))
		}
		return false
	}
	manager := d.Manager()
	control.Generic.AggregatedDiscoveryGroupManager = manager
	config.ApiExtensions.GenericConfig.AggregatedDiscoveryGroupManager = manager
	config.Aggregator.GenericConfig.AggregatedDiscoveryGroupManager = manager
	return true
}

// followAPIServices tells discovery of the APIServices that the aggregator knows.
func followAPIServices(aggregator *aggregatorapiserver.APIAggregator, d *discovery.Server) error {
	informer := aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Informer()
	if _, err := informer.AddEventHandler(d.Services().Handler()); err != nil {
		return fmt.Errorf("follow APIServices: %w", err)
	}
	return nil
}
