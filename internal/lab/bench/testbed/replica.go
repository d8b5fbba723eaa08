package testbed

import (
	"context"
	"path/filepath"
	"strconv"
)

// ReplicaConfig says how to run a replica. LogName and Upstream are required.
type ReplicaConfig struct {
	// LogName is the name of the replica's log, without ".log". Its other files start so, too.
	LogName string
	// Upstream is the server or replica that the replica passes requests on to.
	Upstream *Server
	// Etcd says that the replica is fed by the Testbed's etcd. Zero value: by Upstream.
	Etcd bool
	Args []string // further arguments of "replica"
}

// StartReplica starts a replica on a port of its own, and returns when it is ready. The
// caller must call End.
func (b *Testbed) StartReplica(ctx context.Context, r ReplicaConfig) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cfg := b.serverConfig("replica", r.LogName)
	cfg.port, cfg.kubeconfig = port, filepath.Join(b.dir, r.LogName+".kubeconfig")
	cfg.args = []string{
		"replica", "--secure-port=" + strconv.Itoa(port), "--kubeconfig=" + r.Upstream.Kubeconfig, "--write-kubeconfig=" + cfg.kubeconfig,
		"--cert-dir=" + filepath.Join(b.dir, r.LogName+"-certificates"),
	}
	if r.Etcd {
		cfg.args = append(cfg.args, b.etcdFlag())
	}
	cfg.args = append(cfg.args, r.Args...)
	return b.startMillrace(ctx, cfg)
}
