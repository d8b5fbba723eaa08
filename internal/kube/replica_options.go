package kube

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/transport"
	cliflag "k8s.io/component-base/cli/flag"
)

// ReplicaOptions are the options of a server that only reads: those of kube-apiserver
// about etcd, listening, timeouts and logs, and those by which an aggregated API server
// delegates authentication and authorization. They share the former with Options, because
// feature gates are global to the process.
type ReplicaOptions struct {
	*Options
	authentication *genericoptions.DelegatingAuthenticationOptions
	authorization  *genericoptions.DelegatingAuthorizationOptions
}

// NewReplicaOptions makes options with their defaults.
func NewReplicaOptions(shared *Options) *ReplicaOptions {
	o := &ReplicaOptions{
		Options:        shared,
		authentication: genericoptions.NewDelegatingAuthenticationOptions(),
		authorization:  genericoptions.NewDelegatingAuthorizationOptions(),
	}
	// The upstream decides about everybody, also about its administrators.
	o.authorization.AlwaysAllowGroups = nil
	return o
}

// ReplicaDefaults are the values of flags whose defaults differ from kube-apiserver's. The
// port leaves 6443 to an API server on the same machine.
func ReplicaDefaults() [][2]string {
	return [][2]string{{"bind-address", "127.0.0.1"}, {"secure-port", "7443"}, {"cert-dir", "millrace-replica"}}
}

// Flags returns the flags by section. The caller sets ReplicaDefaults.
func (o *ReplicaOptions) Flags() *cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	o.authentication.AddFlags(sections.FlagSet("authentication"))
	o.authorization.AddFlags(sections.FlagSet("authorization"))
	for _, name := range []string{"secure serving", "etcd", "generic", "logs", "global"} {
		section := sections.FlagSet(name)
		o.flags.FlagSet(name).VisitAll(func(f *pflag.Flag) {
			shown := *f
			for _, d := range ReplicaDefaults() {
				if f.Name == d[0] {
					shown.DefValue = d[1]
				}
			}
			section.AddFlag(&shown)
		})
	}
	return &sections
}

// UseUpstream has the upstream's API server decide about users and rights.
func (o *ReplicaOptions) UseUpstream(kubeconfig string, wrap transport.WrapperFunc) {
	o.authentication.RemoteKubeConfigFile, o.authorization.RemoteKubeConfigFile = kubeconfig, kubeconfig
	o.authentication.CustomRoundTripperFn, o.authorization.CustomRoundTripperFn = wrap, wrap
}

// ServingCertificate returns the file of the certificate that clients see. It is known
// once the replica was built.
func (o *ReplicaOptions) ServingCertificate() string {
	return o.run.SecureServing.ServerCert.CertKey.CertFile
}

// applyTo fills in the configuration of a server.
func (o *ReplicaOptions) applyTo(config *genericapiserver.Config) error {
	run := o.run
	if run.SecureServing.BindPort == 0 {
		return errors.New("--secure-port=0 serves nothing: choose a port")
	}
	if err := run.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}); err != nil {
		return fmt.Errorf("make serving certificate: %w", err)
	}
	errs := append(run.SecureServing.Validate(), run.GenericServerRunOptions.Validate()...)
	errs = append(errs, o.authentication.Validate()...)
	errs = append(errs, o.authorization.Validate()...)
	if len(o.EtcdServers()) > 0 {
		errs = append(errs, run.Etcd.Validate()...)
	}
	if len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	if err := run.GenericServerRunOptions.ApplyTo(config); err != nil {
		return err
	}
	if err := run.SecureServing.ApplyToConfig(config); err != nil {
		return err
	}
	if err := o.authentication.ApplyTo(&config.Authentication, config.SecureServing, nil); err != nil {
		return fmt.Errorf("set up authentication by the upstream: %w", err)
	}
	if err := o.authorization.ApplyTo(&config.Authorization); err != nil {
		return fmt.Errorf("set up authorization by the upstream: %w", err)
	}
	return nil
}
