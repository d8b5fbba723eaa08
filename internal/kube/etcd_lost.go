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
	// etcdLostTimeout is how long etcd may not answer while the server ends.
	etcdLostTimeout = 15 * time.Second
	etcdCheckPeriod = time.Second
)

// ErrEtcdLost says that the server ended without what it has to do in etcd at its end.
var ErrEtcdLost = errors.New("etcd does not answer: ended without taking the address and the lease of this server out of it; both expire by themselves")

// watchEtcd tells when etcd has not answered for lostPatience after the end was asked for.
// Kubernetes would wait for it without a limit: what renews the server's lease tries
// until it succeeds, and what removes the lease waits for that.
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
			// Any other answer, or none, is of a server that waits for its clients only.
			if code, err := health(ctx, client, config.Host+"/healthz/etcd"); err != nil || code != http.StatusInternalServerError {
				answered = time.Now()
			}
		}
		lost <- ErrEtcdLost
	}()
	return lost
}
