package kube

import (
	"fmt"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/discovery"
	"github.com/millrace/millrace/internal/apiserver/openapi"
)

// documents serves discovery and OpenAPI in front of Kubernetes' own handlers.
type documents struct {
	discovery *discovery.Server
	// ownManager says that the aggregated discovery document is ours (useDiscovery).
	ownManager bool
	// openAPI is set by createChain, before anything is served.
	openAPI *openapi.Server
}

// newDocuments makes the documents and lets the servers use them. It must be called before
// the configuration is completed. createChain sets openAPI.
func newDocuments(config *app.Config) (*documents, error) {
	d, err := newDiscovery()
	if err != nil {
		return nil, err
	}
	manages := useDiscovery(config, d)
	skipOpenAPI(config)
	return &documents{discovery: d, ownManager: manages}, nil
}

// wrap puts the documents in front of the aggregator's handler.
func (d *documents) wrap(next http.Handler) http.Handler {
	return d.discovery.Wrap(d.openAPI.Wrap(next))
}

// createChain makes the chain of servers, with our server of custom resources and our
// documents. Each server passes a request for an unknown path on to the next. The order is
// the aggregator, kube-apiserver, custom resources, and a handler that answers 404.
//
// Upstream: k8s.io/kubernetes/cmd/kube-apiserver/app.CreateServerChain; compare at each upgrade.
func (s *Server) createChain(config app.CompletedConfig, hooks Hooks) error {
	notFound := notfoundhandler.New(config.KubeAPIs.ControlPlane.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	var err error
	s.custom, err = crd.New(config.ApiExtensions, genericapiserver.NewEmptyDelegateWithCustomHandler(notFound), hooks.CustomResources)
	if err != nil {
		return fmt.Errorf("make server of custom resources: %w", err)
	}
	catalog := s.custom.Catalog()
	catalog.AddHandler(s.documents.discovery.Custom().Change)
	generic := config.Aggregator.GenericConfig
	s.documents.openAPI, err = openapi.New(openapi.Config{Catalog: catalog, Version: version.Get().GitVersion, Logger: hooks.Logger, Panics: hooks.Panics, Locals: func() []openapi.Local {
		return openAPILocals(s.chain()[:localServers], generic.OpenAPIConfig, generic.OpenAPIV3Config)
	}})
	if err != nil {
		return err
	}
	kubeAPIs, err := newControlPlane(config.KubeAPIs, s.custom.Generic, hooks.Logger)
	if err != nil {
		return err
	}
	a := aggregation{config: config.Aggregator, next: kubeAPIs.ControlPlane.GenericAPIServer, storeOf: hooks.Stored}
	if config.ApiExtensions.GenericConfig.MergedResourceConfig.ResourceEnabled(
		apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")) {
		a.catalog = catalog
	}
	if s.aggregator, err = a.create(); err != nil {
		return err
	}
	for i, server := range s.chain()[:localServers] {
		server.Handler.GoRestfulContainer.Router(&router{})
		if i > 0 {
			emptyOpenAPI(server)
		}
	}
	s.builtInGroups = installedGroups(s.chain()[:localServers])
	return followAPIServices(s.aggregator, s.documents.discovery)
}

// installedGroups returns the API groups that the servers have installed handlers for.
func installedGroups(servers []*genericapiserver.GenericAPIServer) map[string]bool {
	groups := map[string]bool{}
	for _, server := range servers {
		for _, service := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
			if group, ok := strings.CutPrefix(service.RootPath(), "/apis/"); ok {
				group, _, _ = strings.Cut(group, "/")
				groups[group] = true
			}
		}
	}
	return groups
}

// localServers is the number of servers in the chain: aggregator, kube-apiserver, custom
// resources.
const localServers = 3
