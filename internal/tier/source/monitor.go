package source

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
)

// Monitor asks an etcd cluster for its size, for apiserver_storage_size_bytes. It
// replaces Kubernetes' own monitor, which dials at each scrape and waits 20 s for an
// etcd that does not answer. A scrape may not take so long. There would be no metrics
// just when they are needed.
type Monitor struct {
	client  *clientv3.Client
	servers string
}

var _ etcdmetrics.Monitor = Monitor{}

// Monitors returns a Monitor for each cluster, in Kubernetes' order: the main cluster
// first.
func (e *Etcd) Monitors() []etcdmetrics.Monitor {
	main := strings.Join(e.cfg.Main, ",")
	all := e.All()
	slices.SortFunc(all, func(x, y *Backend) int {
		switch {
		case x.Servers == y.Servers:
			return 0
		case x.Servers == main:
			return -1
		case y.Servers == main:
			return 1
		}
		return cmp.Compare(x.Servers, y.Servers)
	})
	monitors := make([]etcdmetrics.Monitor, len(all))
	for i, backend := range all {
		monitors[i] = Monitor{backend.Client.Client, backend.Servers}
	}
	return monitors
}

// Monitor implements etcdmetrics.Monitor: it asks a member at random. The caller's
// context allows it a second.
//
// Upstream: k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ProberMonitor.Monitor; compare at each upgrade.
func (m Monitor) Monitor(ctx context.Context) (etcdmetrics.StorageMetrics, error) {
	members := strings.Split(m.servers, ",")
	status, err := m.client.Status(ctx, members[rand.IntN(len(members))])
	if err != nil {
		return etcdmetrics.StorageMetrics{}, fmt.Errorf("ask etcd %s for its size: %w", m.servers, err)
	}
	return etcdmetrics.StorageMetrics{Size: status.DbSize}, nil
}

// Close implements etcdmetrics.Monitor. It does nothing: the client belongs to the cluster.
func (m Monitor) Close() error { return nil }
