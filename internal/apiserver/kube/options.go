package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/server/flagz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
)

// Options are the options of kube-apiserver, with all of its flags.
type Options struct {
	run   *options.ServerRunOptions
	flags cliflag.NamedFlagSets
}

// NewOptions makes options with kube-apiserver's defaults.
func NewOptions() *Options {
	o := &Options{run: options.NewServerRunOptions()}
	o.flags = o.run.Flags()
	o.run.Flagz = flagz.NamedFlagSetsReader{FlagSets: o.flags}
	globalflag.AddGlobalFlags(o.flags.FlagSet("global"), "millrace", logs.SkipLoggingConfigurationFlags())
	return o
}

// Flags returns kube-apiserver's flags by section.
func (o *Options) Flags() *cliflag.NamedFlagSets { return &o.flags }

// AddTo adds all flags to a flag set.
func (o *Options) AddTo(fs *pflag.FlagSet) {
	for _, section := range o.flags.FlagSets {
		fs.AddFlagSet(section)
	}
}

// EtcdServers returns the value of --etcd-servers.
func (o *Options) EtcdServers() []string { return o.run.Etcd.StorageConfig.Transport.ServerList }

// UseEtcd replaces the value of --etcd-servers by one endpoint.
func (o *Options) UseEtcd(endpoint string) {
	o.run.Etcd.StorageConfig.Transport.ServerList = []string{endpoint}
}

// UseWatchCache decides whether Kubernetes keeps decoded objects in its watch cache.
func (o *Options) UseWatchCache(use bool) { o.run.Etcd.EnableWatchCache = use }

// Etcd returns the options of the storage.
func (o *Options) Etcd() *genericoptions.EtcdOptions { return o.run.Etcd }

// SecurePort returns the value of --secure-port.
func (o *Options) SecurePort() int { return o.run.SecureServing.BindPort }

// MinRequestTimeout returns the value of --min-request-timeout.
func (o *Options) MinRequestTimeout() time.Duration {
	return time.Duration(o.run.GenericServerRunOptions.MinRequestTimeout) * time.Second
}

// asksOtherServers reports whether authentication or authorization may wait for another
// server: a webhook, or an issuer of tokens.
//
// Upstream: k8s.io/kubernetes/pkg/kubeapiserver/options.BuiltInAuthenticationOptions; compare at each upgrade.
func (o *Options) asksOtherServers() bool {
	authn, authz := o.run.Authentication, o.run.Authorization
	return authn.AuthenticationConfigFile != "" || authn.OIDC != nil && authn.OIDC.IssuerURL != "" || authn.WebHook != nil && authn.WebHook.ConfigFile != "" ||
		authz.AuthorizationConfigurationFile != "" || slices.Contains(authz.Modes, modes.ModeWebhook)
}

// Apply makes the flags of feature gates and logging take effect. They are global to the
// process, so it must be called once, before anything that logs starts.
//
// Upstream: k8s.io/kubernetes/cmd/kube-apiserver/app.NewAPIServerCommand; compare at each upgrade.
func (o *Options) Apply() error {
	registry := o.run.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil {
		return fmt.Errorf("apply flags: %w", err)
	}
	// Loopback clients need not log the warnings that they caused.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	gate := registry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(o.run.Logs, gate); err != nil {
		return fmt.Errorf("apply flags: %w", err)
	}
	if mutable, ok := gate.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	registry.AddMetrics()
	return nil
}

// complete fills in defaults and validates the options.
//
// Upstream: k8s.io/kubernetes/cmd/kube-apiserver/app.Run; compare at each upgrade.
func (o *Options) complete(ctx context.Context) (options.CompletedOptions, error) {
	completed, err := o.run.Complete(ctx)
	if err != nil {
		return options.CompletedOptions{}, fmt.Errorf("complete flags: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return options.CompletedOptions{}, utilerrors.NewAggregate(errs)
	}
	// Metrics of informers have this name. A second server in the process has no such metrics.
	completed.InformerName, _ = cache.NewInformerName("kube-apiserver")
	return completed, nil
}

// newConfig builds the configuration of all servers, and starts nothing that serves.
// prepare is called with the informer factory before any informer is used. If prepare is
// nil, the configuration is the stock one.
func (o *Options) newConfig(ctx context.Context, prepare func(informers.SharedInformerFactory) error) (*app.Config, error) {
	completed, err := o.complete(ctx)
	if err != nil {
		return nil, err
	}
	if o.run.SecureServing.BindPort == 0 && o.run.SecureServing.Listener == nil {
		return nil, errors.New("--secure-port=0 serves nothing: choose a port")
	}
	build := app.NewConfig
	if prepare != nil {
		build = func(opts options.CompletedOptions) (*app.Config, error) { return configure(opts, prepare) }
	}
	config, err := build(completed)
	if err != nil {
		return nil, fmt.Errorf("configure server: %w", err)
	}
	return config, nil
}

func init() {
	if err := logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate); err != nil {
		panic(err)
	}
}
