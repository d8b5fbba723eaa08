package kube

import (
	"fmt"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
)

// configure makes the configuration of all servers. It differs from upstream in four ways.
// Stored objects have our decoder. prepare is called with the informer factory before any
// informer is used. Authorization waits until what it reads is loaded. The admission plugin
// ResourceQuota is skipped in namespaces without a quota.
//
// Authentication and authorization are the first to use informers. Upstream sets them up
// inside BuildGenericConfig, which also makes the factory. So BuildGenericConfig is called
// without their options, and authenticate sets them up after prepare.
//
// Upstream: k8s.io/kubernetes/cmd/kube-apiserver/app.NewConfig; compare at each upgrade.
func configure(opts options.CompletedOptions, prepare func(informers.SharedInformerFactory) error) (*app.Config, error) {
	authn, authz := opts.Authentication, opts.Authorization
	opts.Authentication, opts.Authorization = nil, nil
	schemes := []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	generic, factory, storageFactory, err := controlplaneapiserver.BuildGenericConfig(
		opts.CompletedOptions, schemes, controlplane.DefaultAPIResourceConfigSource(), generatedopenapi.GetOpenAPIDefinitions, opts.InformerName)
	opts.Authentication, opts.Authorization = authn, authz
	if err != nil {
		return nil, err
	}
	setStoredDecoders(storageFactory)
	if err := prepare(factory); err != nil {
		return nil, err
	}
	if err := authenticate(opts, generic, factory); err != nil {
		return nil, err
	}
	if admit := opts.Admission; admit != nil && admit.GenericAdmission.ConfigFile == "" {
		decorators := admit.GenericAdmission.Decorators
		admit.GenericAdmission.Decorators = append(admission.Decorators{skipWithoutQuota(factory)}, decorators...)
		defer func() { admit.GenericAdmission.Decorators = decorators }()
	}
	kube, resolver, plugins, err := app.CreateKubeAPIServerConfig(opts, generic, factory, storageFactory)
	if err != nil {
		return nil, err
	}
	control := kube.ControlPlane
	auth := webhook.NewDefaultAuthenticationInfoResolverWrapper(
		control.ProxyTransport, control.Generic.EgressSelector, control.Generic.LoopbackClientConfig, control.Generic.TracerProvider)
	extensions, err := controlplaneapiserver.CreateAPIExtensionsConfig(
		*control.Generic, factory, plugins, opts.CompletedOptions, opts.MasterCount, resolver, auth)
	if err != nil {
		return nil, err
	}
	aggregator, err := controlplaneapiserver.CreateAggregatorConfig(
		*control.Generic, opts.CompletedOptions, factory, resolver, control.ProxyTransport, control.Extra.PeerProxy, plugins)
	if err != nil {
		return nil, err
	}
	return &app.Config{Options: opts, KubeAPIs: kube, ApiExtensions: extensions, Aggregator: aggregator}, nil
}

// authenticate sets up authentication and authorization as the end of BuildGenericConfig
// does, and puts a loadingAuthorizer around the authorizer.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.BuildGenericConfig; compare at each upgrade.
func authenticate(opts options.CompletedOptions, generic *genericapiserver.Config, factory informers.SharedInformerFactory) error {
	client, err := kubernetes.NewForConfig(generic.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("make loopback client: %w", err)
	}
	ctx := wait.ContextForChannel(generic.DrainedNotify())
	if err := opts.Authentication.ApplyTo(ctx, &generic.Authentication, generic.SecureServing, generic.EgressSelector,
		generic.OpenAPIConfig, generic.OpenAPIV3Config, client, factory, generic.APIServerID); err != nil {
		return err
	}
	authorizer, rules, rbac, err := controlplaneapiserver.BuildAuthorizer(ctx, opts.CompletedOptions, generic.EgressSelector, generic.APIServerID, factory)
	if err != nil {
		return fmt.Errorf("invalid authorization config: %w", err)
	}
	generic.RuleResolver = rules
	if authorizer != nil {
		generic.Authorization.Authorizer = newLoadingAuthorizer(authorizer, factory, rbac)
	}
	if opts.Authorization != nil && !rbac {
		generic.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName)
	}
	return nil
}
