package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// etcdLostTimeout is how long etcd may fail to answer while the server shuts down.
	etcdLostTimeout = 15 * time.Second
	etcdCheckPeriod = time.Second
)

// ErrEtcdLost says that the server has shut down without removing its address and lease
// from etcd.
var ErrEtcdLost = errors.New("etcd does not answer: ended without taking the address and the lease of this server out of it; both expire by themselves")

// watchEtcd asks the server about etcd once ending is closed. It sends ErrEtcdLost when etcd
// has not answered for etcdLostTimeout. Kubernetes would wait without a limit. The renewal
// of the server's lease retries until it succeeds, and the removal of the lease waits for
// the renewal.
func (s *Server) watchEtcd(ctx context.Context, ending <-chan struct{}) <-chan error {
	lost := make(chan error, 1)
	config := s.Loopback()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		lost <- fmt.Errorf("make loopback client: %w", err)
		return lost
	}
	go func() {
		select {
		case <-ending:
		case <-ctx.Done():
			return
		}
		ticker := time.NewTicker(etcdCheckPeriod)
		defer ticker.Stop()
		for answered := time.Now(); time.Since(answered) < etcdLostTimeout; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			// Any other answer, or none, means that the server only waits for its clients.
			if code, err := health(ctx, client, config.Host+"/healthz/etcd"); err != nil || code != http.StatusInternalServerError {
				answered = time.Now()
			}
		}
		lost <- ErrEtcdLost
	}()
	return lost
}
