package kube

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	apiserverinternalrest "k8s.io/kubernetes/pkg/registry/apiserverinternal/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	autoscalingrest "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batchrest "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	endpointsstore "k8s.io/kubernetes/pkg/registry/core/endpoint/storage"
	limitrangestore "k8s.io/kubernetes/pkg/registry/core/limitrange/storage"
	nodestore "k8s.io/kubernetes/pkg/registry/core/node/storage"
	volumestore "k8s.io/kubernetes/pkg/registry/core/persistentvolume/storage"
	claimstore "k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	podtemplatestore "k8s.io/kubernetes/pkg/registry/core/podtemplate/storage"
	controllerstore "k8s.io/kubernetes/pkg/registry/core/replicationcontroller/storage"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	lifecyclerest "k8s.io/kubernetes/pkg/registry/lifecycle/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	svmrest "k8s.io/kubernetes/pkg/registry/storagemigration/rest"
)

// builtInStorages makes the storages of the built-in resources, for a server that reads
// them and never writes. The storages lack what only writes need: clients, authorizers,
// allocators of addresses. So nothing of this touches a cluster.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane.CompletedConfig.StorageProviders; compare at each upgrade.
func builtInStorages(source serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) ([]genericapiserver.APIGroupInfo, error) {
	core, err := coreGroup(source, options)
	if err != nil {
		return nil, fmt.Errorf("make storage of the core group: %w", err)
	}
	groups := []genericapiserver.APIGroupInfo{core}
	nobody := authorizerfactory.NewAlwaysDenyAuthorizer()
	for _, provider := range []controlplaneapiserver.RESTStorageProvider{
		apiserverinternalrest.StorageProvider{},
		autoscalingrest.RESTStorageProvider{},
		batchrest.RESTStorageProvider{},
		certificatesrest.RESTStorageProvider{Authorizer: nobody},
		coordinationrest.RESTStorageProvider{},
		discoveryrest.StorageProvider{},
		lifecyclerest.RESTStorageProvider{},
		networkingrest.RESTStorageProvider{},
		noderest.RESTStorageProvider{},
		policyrest.RESTStorageProvider{},
		rbacrest.RESTStorageProvider{},
		schedulingrest.RESTStorageProvider{},
		storagerest.RESTStorageProvider{},
		svmrest.RESTStorageProvider{},
		flowcontrolrest.RESTStorageProvider{},
		appsrest.StorageProvider{},
		admissionregistrationrest.RESTStorageProvider{},
		eventsrest.RESTStorageProvider{},
		resourcerest.RESTStorageProvider{Authorizer: nobody, NamespaceClient: noNamespaces{}},
	} {
		group, err := provider.NewRESTStorage(source, options)
		if err != nil {
			return nil, fmt.Errorf("make storage of group %s: %w", provider.GroupName(), err)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// noNamespaces is a client that is never used. A provider insists on one.
type noNamespaces struct {
	corev1client.NamespaceInterface
}

// storageRoutes lists the resources of a group that have GET or LIST, as Kubernetes would
// install them. serializer belongs to the server that would install them.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers; compare at each upgrade.
func storageRoutes(group *genericapiserver.APIGroupInfo, serializer runtime.NegotiatedSerializer) ([]Route, error) {
	var routes []Route
	for _, gv := range group.PrioritizedVersions {
		for name, storage := range group.VersionedResourcesStorageMap[gv.Version] {
			r := Route{Resource: gv.WithResource(name)}
			_, r.Gets = storage.(rest.Getter)
			_, r.Lists = storage.(rest.Lister)
			_, r.Watches = storage.(rest.Watcher)
			if strings.Contains(name, "/") || !r.Gets && !r.Lists {
				continue
			}
			var err error
			if r.Kind, err = endpoints.GetResourceKind(gv, storage, group.Scheme); err != nil {
				return nil, fmt.Errorf("find kind of %s: %w", r.Resource, err)
			}
			if scoper, ok := storage.(rest.Scoper); ok {
				r.Namespaced = scoper.NamespaceScoped()
			}
			if r.StorageVersion, err = storageVersion(storage, group.Scheme); err != nil {
				return nil, fmt.Errorf("find storage version of %s: %w", r.Resource, err)
			}
			r.complete(serializer, group.Scheme)
			routes = append(routes, r)
		}
	}
	return routes, nil
}

// coreGroup makes the storages of the core group. Upstream's provider also makes the
// allocators of service addresses, which write to etcd.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/rest.legacyProvider.NewRESTStorage; compare at each upgrade.
func coreGroup(source serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := (&corerest.GenericConfig{}).NewRESTStorage(source, options)
	if err != nil {
		return group, err
	}
	version := corev1.SchemeGroupVersion.Version
	storages := group.VersionedResourcesStorageMap[version]
	if storages == nil {
		storages = map[string]rest.Storage{}
		group.VersionedResourcesStorageMap[version] = storages
	}
	for name, create := range coreStorages(options) {
		if !source.ResourceEnabled(corev1.SchemeGroupVersion.WithResource(name)) {
			continue
		}
		if storages[name], err = create(); err != nil {
			return group, fmt.Errorf("make storage of %s: %w", name, err)
		}
	}
	return group, nil
}

// coreStorages returns functions that make the storages of stored resources which
// corerest.GenericConfig lacks, by resource.
func coreStorages(options generic.RESTOptionsGetter) map[string]func() (rest.Storage, error) {
	return map[string]func() (rest.Storage, error){
		"podtemplates": func() (rest.Storage, error) { return podtemplatestore.NewREST(options) },
		"limitranges":  func() (rest.Storage, error) { return limitrangestore.NewREST(options) },
		"endpoints":    func() (rest.Storage, error) { return endpointsstore.NewREST(options) },
		"persistentvolumes": func() (rest.Storage, error) {
			made, _, err := volumestore.NewREST(options)
			return made, err
		},
		"persistentvolumeclaims": func() (rest.Storage, error) {
			made, _, err := claimstore.NewREST(options)
			return made, err
		},
		"replicationcontrollers": func() (rest.Storage, error) {
			made, err := controllerstore.NewStorage(options)
			return made.Controller, err
		},
		"nodes": func() (rest.Storage, error) {
			made, err := nodestore.NewStorage(options, kubeletclient.KubeletClientConfig{}, nil)
			if err != nil {
				return nil, err
			}
			return made.Node, nil
		},
		"pods": func() (rest.Storage, error) {
			made, err := podstore.NewStorage(options, nil, nil, nil, nil)
			return made.Pod, err
		},
		"services": func() (rest.Storage, error) {
			made, _, _, err := servicestore.NewREST(options, "", nil, nil, nil, nil, nil)
			return made, err
		},
	}
}

// storageVersion returns the version in which a storage stores objects. It is empty for a
// storage that does not tell, which stores none.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.getStorageVersionKind; compare at each upgrade.
func storageVersion(storage rest.Storage, typer runtime.ObjectTyper) (schema.GroupVersion, error) {
	provider, ok := storage.(rest.StorageVersionProvider)
	if !ok {
		return schema.GroupVersion{}, nil
	}
	kinds, _, err := typer.ObjectKinds(storage.New())
	if err != nil {
		return schema.GroupVersion{}, err
	}
	kind, ok := provider.StorageVersion().KindForGroupVersionKinds(kinds)
	if !ok {
		return schema.GroupVersion{}, fmt.Errorf("no storage version for %v", kinds)
	}
	return kind.GroupVersion(), nil
}
