package fill

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
)

// Config says what to write or remove, and where. Exactly one way is used: an
// etcd client or etcd endpoints if given, else the API.
type Config struct {
	// Shape is what to write. When deleting only its Seed matters.
	Shape Shape
	// Delete removes what a fill with the same seed wrote, instead of writing.
	Delete bool

	// Kubeconfig is the file that says how to reach the API server. Empty means
	// $KUBECONFIG, and without that admin.kubeconfig in DataDir.
	Kubeconfig string
	// DataDir is a server's data directory; empty means "millrace-data" in the
	// current one.
	DataDir string
	// REST reaches the API server in place of a kubeconfig. It is copied.
	REST *rest.Config
	// SkipPodStatus leaves pods written through the API without a status, which
	// saves one of two requests for each. Pods in etcd always have one.
	SkipPodStatus bool

	// Etcd reaches etcd, for writing past the API server.
	Etcd EtcdConfig

	// Workers is the number of requests in flight; zero means
	// DefaultEtcdWorkers or DefaultAPIWorkers.
	Workers int
	// Batch is the number of objects in one etcd transaction, at most
	// MaxBatch; zero means MaxBatch. A transaction also ends at 1 MB.
	Batch int

	// Progress takes bars or lines about the progress; nil means none.
	Progress io.Writer
	// Bars draws progress bars on a terminal rather than writing lines.
	Bars bool
	// Interval is the time between lines; zero means 5 s.
	Interval time.Duration
	// Now is the clock that rates are measured with; nil means time.Now.
	Now func() time.Time
}

// EtcdConfig says how to reach etcd.
type EtcdConfig struct {
	// Endpoints are etcd's client URLs; none means the API is used.
	Endpoints []string
	// CAFile, CertFile and KeyFile are PEM files for TLS; all may be empty.
	CAFile, CertFile, KeyFile string
	// Prefix is the API server's --etcd-prefix; empty means "/registry".
	Prefix string
	// Client is used in place of Endpoints. It stays open.
	Client *clientv3.Client
}

// Defaults and limits of a Config. More workers than these gained nothing on
// two cores against an embedded server.
const (
	DefaultEtcdWorkers = 8
	DefaultAPIWorkers  = 32
	// MaxBatch stays below the 128 operations that etcd allows in a
	// transaction by default.
	MaxBatch = 100
)

const (
	defaultDataDir  = "millrace-data"
	defaultPrefix   = "/registry"
	defaultInterval = 5 * time.Second
	maxWorkers      = 4096
)

func (c *Config) writesToEtcd() bool { return c.Etcd.Client != nil || len(c.Etcd.Endpoints) > 0 }

// withDefaults returns the config with its zero values replaced, but for how
// to reach the server.
func (c Config) withDefaults() Config {
	if c.Workers == 0 {
		c.Workers = DefaultAPIWorkers
		if c.writesToEtcd() {
			c.Workers = DefaultEtcdWorkers
		}
	}
	if c.Batch == 0 {
		c.Batch = MaxBatch
	}
	if c.DataDir == "" {
		c.DataDir = defaultDataDir
	}
	if c.Etcd.Prefix == "" {
		c.Etcd.Prefix = defaultPrefix
	}
	if c.Progress == nil {
		c.Progress = io.Discard
		c.Bars = false
	}
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c *Config) validate() error {
	s := c.Shape
	switch {
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("workers is %d: give a number from 1 to %d", c.Workers, maxWorkers)
	case c.Batch < 0 || c.Batch > MaxBatch:
		return fmt.Errorf("batch is %d: give a number from 1 to %d, etcd takes no larger transactions", c.Batch, MaxBatch)
	case c.Interval < 0:
		return fmt.Errorf("interval is %s: give zero or a positive time", c.Interval)
	case (c.Etcd.CertFile == "") != (c.Etcd.KeyFile == ""):
		return errors.New("etcd certificate and key belong together: give both etcd-certfile and etcd-keyfile, or neither")
	case !c.writesToEtcd() && c.Etcd.CAFile+c.Etcd.CertFile != "":
		return errors.New("etcd certificates are given but no etcd servers: add etcd-servers")
	case c.writesToEtcd() && (c.REST != nil || c.Kubeconfig != ""):
		return errors.New("both etcd servers and a kubeconfig are given: choose one of etcd-servers and kubeconfig")
	case c.writesToEtcd() && s.CRDs > 0:
		return errors.New("custom resource definitions are written through an API server: give a kubeconfig instead of etcd-servers")
	case !c.Delete && s.Nodes == 0 && s.Namespaces == 0 && s.Pods == 0 && s.Secrets == 0 && s.ConfigMaps == 0 && s.CRDs == 0:
		return errors.New("nothing to write: give a number of pods, nodes, namespaces, secrets, configmaps or crds")
	}
	return nil
}

// kubeconfigPaths returns the files to read, in order of precedence.
func (c *Config) kubeconfigPaths() []string {
	if c.Kubeconfig != "" {
		return []string{c.Kubeconfig}
	}
	if paths := filepath.SplitList(os.Getenv("KUBECONFIG")); len(paths) > 0 {
		return paths
	}
	return []string{filepath.Join(c.DataDir, "admin.kubeconfig")}
}
