package testbed

import (
	"context"
	"path/filepath"
	"strconv"
)

// ReplicaConfig says how to run a replica. Log and Upstream are required.
type ReplicaConfig struct {
	// Log is the name of its log, without ".log". It also names its files.
	Log string
	// Upstream is the server or replica behind it.
	Upstream *Server
	// Etcd feeds it by the Testbed's etcd. Zero value: by Upstream.
	Etcd bool
	Args []string
}

// StartReplica starts a replica on a port of its own, and returns when it is ready. The
// caller must call End.
func (b *Testbed) StartReplica(ctx context.Context, r ReplicaConfig) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cfg := b.serverConfig("replica", r.Log)
	cfg.port, cfg.kubeconfig = port, filepath.Join(b.dir, r.Log+".kubeconfig")
	cfg.args = []string{
		"replica", "--secure-port=" + strconv.Itoa(port), "--kubeconfig=" + r.Upstream.Kubeconfig, "--write-kubeconfig=" + cfg.kubeconfig,
		"--cert-dir=" + filepath.Join(b.dir, r.Log+"-certificates"),
	}
	if r.Etcd {
		cfg.args = append(cfg.args, b.etcdFlag())
	}
	cfg.args = append(cfg.args, r.Args...)
	return b.startMillrace(ctx, cfg)
}
