package testbed

import (
	"context"
	"path/filepath"
	"strconv"
)

// StartReplica starts a replica in front of the server that runs, on a port of its own, and
// returns when it is ready. With etcd it is fed by the Testbed's etcd, and otherwise by the
// server. The caller must call End.
func (b *Testbed) StartReplica(ctx context.Context, log string, etcd bool, args ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cfg := b.serverConfig("replica", log)
	cfg.port, cfg.kubeconfig = port, filepath.Join(b.dir, "replica.kubeconfig")
	cfg.args = []string{
		"replica", "--secure-port=" + strconv.Itoa(port), "--kubeconfig=" + b.kubeconfig(), "--write-kubeconfig=" + cfg.kubeconfig,
		"--cert-dir=" + filepath.Join(b.dir, "replica-certificates"),
	}
	if etcd {
		cfg.args = append(cfg.args, b.etcdFlag())
	}
	cfg.args = append(cfg.args, args...)
	return startServer(ctx, cfg)
}
