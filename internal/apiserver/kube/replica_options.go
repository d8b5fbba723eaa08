package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
)

// ReplicaOptions are the options of a server that only reads.
type ReplicaOptions struct {
	// Options are kube-apiserver's. The replica uses those about etcd, listening, timeouts,
	// audit and logs. They are shared, because feature gates are global to the process.
	*Options
	// authentication and authorization are the options by which an aggregated API server
	// delegates both to its upstream.
	authentication *genericoptions.DelegatingAuthenticationOptions
	authorization  *genericoptions.DelegatingAuthorizationOptions
	// upstream is set by UseUpstream.
	upstream *rest.Config
	// fairness is --enable-priority-and-fairness.
	fairness bool
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

// ReplicaDefaults returns the values of flags whose defaults differ from kube-apiserver's.
// The port leaves 6443 to an API server on the same machine. A request in flight costs a
// replica a tenth of what it costs an API server, or a connection to the upstream.
func ReplicaDefaults() [][2]string {
	return [][2]string{
		{"bind-address", "127.0.0.1"}, {"secure-port", "7443"}, {"cert-dir", "millrace-replica"},
		{"max-requests-inflight", "3000"}, {"max-mutating-requests-inflight", "1000"},
	}
}

// Flags returns the flags by section. The caller sets ReplicaDefaults.
func (o *ReplicaOptions) Flags() *cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	o.authentication.AddFlags(sections.FlagSet("authentication"))
	o.authorization.AddFlags(sections.FlagSet("authorization"))
	sections.FlagSet("features").BoolVar(&o.fairness, "enable-priority-and-fairness", false,
		"Queue and dispatch requests by the upstream's FlowSchemas and PriorityLevelConfigurations, which share --max-requests-inflight and --max-mutating-requests-inflight. Otherwise requests beyond these get 429.")
	for _, name := range []string{"secure serving", "etcd", "generic", "auditing", "logs", "global"} {
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

// UseUpstream lets the upstream's API server decide about users and rights. config leads to it,
// as the kubeconfig does. What wraps its transport also wraps the transports of Kubernetes'
// options.
func (o *ReplicaOptions) UseUpstream(kubeconfig string, config *rest.Config) {
	o.authentication.WithCustomRoundTripper(config.WrapTransport)
	o.authorization.WithCustomRoundTripper(config.WrapTransport)
	o.authentication.RemoteKubeConfigFile, o.authorization.RemoteKubeConfigFile = kubeconfig, kubeconfig
	o.upstream = config
}

// ValidateFrontProxy checks by which headers front proxies before this server name users.
// It returns an error if a Proxy does not remove these headers from the requests of
// everybody else. The replica would then vouch to the upstream for what a client has
// written.
func (o *ReplicaOptions) ValidateFrontProxy() error {
	if o.authentication.SkipInClusterLookup {
		return errors.New("--authentication-skip-lookup keeps this replica from knowing by which headers users are named, and --proxy-client-cert-file has it name them: leave one of them out")
	}
	headers := o.authentication.RequestHeader
	if headers.ClientCAFile == "" {
		return nil
	}
	for _, name := range slices.Concat(headers.UsernameHeaders, headers.UIDHeaders, headers.GroupHeaders, headers.ExtraHeaderPrefixes) {
		if !strings.HasPrefix(http.CanonicalHeaderKey(name), "X-Remote-") {
			return fmt.Errorf("a flag --requestheader-… names the header %q, and with --proxy-client-cert-file only those that begin with X-Remote- are safe: leave it out, or --proxy-client-cert-file", name)
		}
	}
	return nil
}

// RightsTTL returns how long a right that the upstream has granted is remembered.
func (o *ReplicaOptions) RightsTTL() time.Duration { return o.authorization.AllowCacheTTL }

// ServingCertificate returns the file of the certificate that clients see. The replica
// must have been built.
func (o *ReplicaOptions) ServingCertificate() string {
	return o.run.SecureServing.ServerCert.CertKey.CertFile
}

// applyTo fills in the configuration of a server.
func (o *ReplicaOptions) applyTo(config *genericapiserver.Config, reviews Reviews) error {
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
	errs = append(errs, run.Audit.Validate()...)
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
	if err := o.useClientCA(config); err != nil {
		return err
	}
	if err := o.authentication.ApplyTo(&config.Authentication, config.SecureServing, nil); err != nil {
		return fmt.Errorf("set up authentication by the upstream: %w", err)
	}
	if err := o.useReviews(config, reviews); err != nil {
		return err
	}
	if err := run.Audit.ApplyTo(config); err != nil {
		return fmt.Errorf("set up audit: %w", err)
	}
	return nil
}

// clientCAMap is the config map in which API servers publish who signs the certificates of
// their clients. clientCAKey is the key of that authority in it.
const clientCAMap, clientCAKey = "extension-apiserver-authentication", "client-ca-file"

// useClientCA makes the server trust the authority for client certificates that a flag names,
// or that the upstream publishes. The server is not ready before it has read a published
// authority: until then, users with certificates would be strangers. Kubernetes' own options
// do not wait.
func (o *ReplicaOptions) useClientCA(config *genericapiserver.Config) (err error) {
	if o.authentication.ClientCert.ClientCA != "" { // a flag names it
		o.authentication.ClientCert.CAContentProvider, err = o.authentication.ClientCert.GetClientCAContentProvider()
		return err
	}
	client, err := kubernetes.NewForConfig(o.upstream)
	if err != nil {
		return fmt.Errorf("make client of the upstream: %w", err)
	}
	published, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(context.Background(), clientCAMap, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read who signs client certificates: %w: let the user of --kubeconfig read that config map, or give --client-ca-file", err)
	}
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", metav1.NamespaceSystem, clientCAMap, clientCAKey, client)
	if err != nil {
		return fmt.Errorf("follow who signs client certificates: %w", err)
	}
	o.authentication.ClientCert.CAContentProvider = authority
	if published.Data[clientCAKey] == "" {
		return nil
	}
	config.AddReadyzChecks(healthz.NamedCheck("millrace-client-ca", func(*http.Request) error {
		if len(authority.CurrentCABundleContent()) == 0 {
			return errors.New("the authority of client certificates is not read yet")
		}
		return nil
	}))
	return nil
}
