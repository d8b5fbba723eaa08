package fill

import (
	"errors"
	"fmt"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// Config says which objects a run writes or removes, and where. If it has an etcd
// client or etcd endpoints, the run uses etcd alone, otherwise the API alone.
type Config struct {
	// Shape describes the objects to write. A deleting run uses only its Seed.
	Shape Shape
	// Profile, if it is not nil, describes the objects to write. Of the Shape only the Seed
	// counts then.
	Profile *clusterprofile.Profile
	// Definitions are written in place of the Shape's definitions. DefinitionObjects is the
	// number of custom objects, spread over Definitions.
	Definitions       []*apiextv1.CustomResourceDefinition
	DefinitionObjects int
	// Delete removes what a fill with the same seed wrote, instead of writing.
	Delete bool

	// Server names the API server, unless REST is set.
	Server kubeconfig.Flags
	// REST is the client configuration for the API server. New copies it.
	REST *rest.Config
	// Etcd says how to reach etcd, for a run that bypasses the API server.
	Etcd EtcdConfig

	// Workers is the number of concurrent requests. Zero means DefaultEtcdWorkers
	// or DefaultAPIWorkers.
	Workers int
	// Progress receives lines of progress. Nil means no output.
	Progress io.Writer
}

// EtcdConfig says how to reach etcd.
type EtcdConfig struct {
	// Endpoints are etcd's client URLs. If there are none and Client is nil, the
	// run uses the API.
	Endpoints []string
	// CAFile, CertFile and KeyFile are PEM files for TLS; all may be empty.
	CAFile, CertFile, KeyFile string
	// Prefix is the API server's --etcd-prefix; empty means "/registry".
	Prefix string
	// Client is used instead of Endpoints. The caller owns it: the run does not
	// close it.
	Client *clientv3.Client
}

// Defaults and limits of a Config. With two cores and an embedded server, more
// workers than these defaults did not write faster.
const (
	DefaultEtcdWorkers = 8
	DefaultAPIWorkers  = 32
	// etcdBatch is the largest number of objects in a transaction. It is below the 128
	// operations that etcd allows by default. A transaction also ends at maxTxnBytes.
	etcdBatch = 100
)

const (
	defaultPrefix = "/registry"
	maxWorkers    = 4096
)

func (c *Config) writesToEtcd() bool { return c.Etcd.Client != nil || len(c.Etcd.Endpoints) > 0 }

// withDefaults returns the config with its zero values replaced. The fields that
// say how to reach the API server stay as they are.
func (c Config) withDefaults() Config {
	if c.Workers == 0 {
		c.Workers = DefaultAPIWorkers
		if c.writesToEtcd() {
			c.Workers = DefaultEtcdWorkers
		}
	}
	if c.Etcd.Prefix == "" {
		c.Etcd.Prefix = defaultPrefix
	}
	return c
}

// validate returns an error if fields contradict each other or are out of range. It names
// fields by their flags.
func (c *Config) validate() error {
	s := c.Shape
	switch {
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("workers is %d: give a number from 1 to %d", c.Workers, maxWorkers)
	case (c.Etcd.CertFile == "") != (c.Etcd.KeyFile == ""):
		return errors.New("etcd certificate and key belong together: give both etcd-certfile and etcd-keyfile, or neither")
	case !c.writesToEtcd() && c.Etcd.CAFile+c.Etcd.CertFile != "":
		return errors.New("etcd certificates are given but no etcd servers: add etcd-servers")
	case c.writesToEtcd() && (c.REST != nil || c.Server.Given() || c.Server.Context != ""):
		return errors.New("both etcd servers and an API server are given: choose one of etcd-servers and kubeconfig, context or data-dir")
	case c.writesToEtcd() && c.Delete:
		return errors.New("objects are deleted through an API server: give a kubeconfig instead of etcd-servers")
	case s.Older && !c.writesToEtcd():
		return errors.New("an API server stores pods in its own version's form: give etcd-servers to write older pods")
	case c.writesToEtcd() && s.CRDs > 0:
		return errors.New("custom resource definitions are written through an API server: give a kubeconfig instead of etcd-servers")
	case c.writesToEtcd() && c.Profile != nil:
		return errors.New("a profile is written through an API server, which has the sizes that it measures: give a " +
			"kubeconfig instead of etcd-servers")
	case c.Profile != nil && s != Shape{Seed: s.Seed, PodSize: s.PodSize, SecretSize: s.SecretSize, ConfigMapSize: s.ConfigMapSize, Properties: s.Properties}:
		return errors.New("a profile says which objects to write: leave out the numbers of pods, nodes and others")
	case len(c.Definitions) > 0 && (c.Profile != nil || c.writesToEtcd() || s.CRDs > 0):
		return errors.New("definitions in files exclude etcd-servers, a profile and crds: choose one of them")
	case len(c.Definitions) > 0 && s.Namespaces == 0:
		return errors.New("objects of definitions need namespaces: give a number of namespaces")
	case len(c.Definitions) == 0 && c.Profile == nil && !c.Delete &&
		s.Nodes == 0 && s.Namespaces == 0 && s.Pods == 0 && s.Secrets == 0 && s.ConfigMaps == 0 && s.CRDs == 0:
		return errors.New("nothing to write: give a number of pods, nodes, namespaces, secrets, configmaps or crds")
	}
	return nil
}
