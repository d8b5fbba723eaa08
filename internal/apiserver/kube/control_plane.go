package kube

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
)

// newControlPlane makes kube-apiserver as Kubernetes does, except for the hooks of its
// resources after the start. Where Kubernetes ends the process because one of these hooks
// has failed, this server goes on (survivingHook).
//
// Upstream: k8s.io/kubernetes/pkg/controlplane.CompletedConfig.New; compare at each upgrade.
func newControlPlane(c controlplane.CompletedConfig, next genericapiserver.DelegationTarget, logger *slog.Logger) (*controlplane.Instance, error) {
	server, err := c.ControlPlane.New(controlplaneapiserver.KubeAPIServer, next)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(c.ControlPlane.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	providers, err := c.StorageProviders(client)
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.Default()
	}
	for i, provider := range providers {
		if hook, ok := provider.(genericapiserver.PostStartHookProvider); ok {
			providers[i] = survivingHook{RESTStorageProvider: provider, hook: hook, retry: hookRetry, logger: logger}
		}
	}
	if err := server.InstallAPIs(providers...); err != nil {
		return nil, err
	}
	if err := addServiceControllers(c, server, client); err != nil {
		return nil, err
	}
	return &controlplane.Instance{ControlPlane: server}, nil
}

// addServiceControllers adds the controllers of the Service kubernetes, and of the default
// range of addresses of Services.
func addServiceControllers(c controlplane.CompletedConfig, server *controlplaneapiserver.Server, client kubernetes.Interface) error {
	generic, endpoints := c.ControlPlane.Generic, c.Extra.EndpointReconcilerConfig
	_, port, err := generic.SecureServing.HostPort()
	if err != nil {
		return fmt.Errorf("failed to get listener address: %w", err)
	}
	if err := endpoints.Reconciler.ValidateIP(generic.PublicAddress); err != nil {
		return fmt.Errorf("cannot use public IP %s with endpoint reconciler: %w", generic.PublicAddress.String(), err)
	}
	own := kubernetesservice.New(kubernetesservice.Config{
		PublicIP: generic.PublicAddress, EndpointReconciler: endpoints.Reconciler, EndpointInterval: endpoints.Interval,
		ServiceIP: c.Extra.APIServerServiceIP, ServicePort: c.Extra.APIServerServicePort,
		PublicServicePort: port, KubernetesServiceNodePort: c.Extra.KubernetesServiceNodePort,
	}, client, c.ControlPlane.Extra.VersionedInformers.Core().V1().Services())
	server.GenericAPIServer.AddPostStartHookOrDie("bootstrap-controller", func(ctx genericapiserver.PostStartHookContext) error {
		own.Start(ctx.Done())
		return nil
	})
	server.GenericAPIServer.AddPreShutdownHookOrDie("stop-kubernetes-service-controller", func() error {
		own.Stop()
		return nil
	})
	server.GenericAPIServer.AddPostStartHookOrDie("start-kubernetes-service-cidr-controller", func(ctx genericapiserver.PostStartHookContext) error {
		defaultservicecidr.NewController(c.Extra.ServiceIPRange, c.Extra.SecondaryServiceIPRange, client).Start(ctx)
		return nil
	})
	return nil
}

// survivingHook keeps a server running after the hook of a resource's storage has failed.
// These are the hooks that read what is stored:
//
//   - RBAC writes the default roles, and fails after half a minute if a role cannot be read.
//   - Scheduling writes the priority classes of the system, and fails likewise.
//   - Priority and fairness writes its default objects, and fails after five minutes.
//   - Services fail if they could not be read for a minute. The loops of that hook go on by
//     themselves, and allocate no address until they can read Services.
//
// Kubernetes ends the process, and again after each start, until somebody has found the
// unreadable object without an API server.
type survivingHook struct {
	controlplaneapiserver.RESTStorageProvider
	hook genericapiserver.PostStartHookProvider
	// retry is the time from a failure to the next call.
	retry  time.Duration
	logger *slog.Logger
}

// hookRetry is survivingHook.retry outside of tests.
const hookRetry = 30 * time.Second

// serviceHook is the only hook that is not called again after a failure: its loops go on by
// themselves.
const serviceHook = "start-service-ip-repair-controllers"

// PostStartHook implements genericapiserver.PostStartHookProvider.
func (s survivingHook) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	name, hook, err := s.hook.PostStartHook()
	if err != nil {
		return name, hook, err
	}
	return name, func(ctx genericapiserver.PostStartHookContext) error {
		err := hook(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.log(name, err)
		if name != serviceHook {
			go s.repeat(ctx, name, hook)
		}
		return nil
	}, nil
}

// repeat calls a hook until it succeeds or the server ends.
func (s survivingHook) repeat(ctx genericapiserver.PostStartHookContext, name string, hook genericapiserver.PostStartHookFunc) {
	_ = wait.PollUntilContextCancel(ctx, s.retry, false, func(context.Context) (done bool, _ error) {
		if err := hook(ctx); err != nil {
			s.log(name, err)
			return false, nil
		}
		s.logger.Info("A step after the start that had failed has succeeded", "hook", name)
		return true, nil
	})
}

func (s survivingHook) log(name string, err error) {
	s.logger.Error("A step after the start has failed; the server goes on without it. An object that it reads may be damaged: see the page, or millrace_cache_unreadable_objects", "hook", name, "err", err)
}
