package serve

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/tier/lifetime"
)

// probe measures the time from a write to its watch event: it writes a Lease every period
// and watches it through the server's own listener. A Lease is Kubernetes' object for
// heartbeats. It is small, no controller acts on a Lease it does not know, and few clients
// watch all of them, unlike config maps.
//
// The watch counts as any other, for the program "millrace-probe". The Lease stays for the
// next start of the same server.
type probe struct {
	config   *rest.Config
	period   time.Duration
	accounts *slo.Watches
}

const (
	probeAgent     = "millrace-probe"
	probeNamespace = metav1.NamespaceSystem
	// probeRetry is the time from the end of a watch to the next watch.
	probeRetry = time.Second
)

// runProbe probes from when the server is ready until the context ends. Without --watch-probe
// it returns at once.
func (s *Server) runProbe(ctx context.Context, tier *tiermount.ReadTier, server program.Server) {
	if s.options.WatchProbe == 0 || server.WaitReady(ctx) != nil {
		return
	}
	p := probe{config: server.Loopback(), period: s.options.WatchProbe, accounts: tier.Backends.WatchAccounts}
	if err := p.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.logger.Error("The watch probe ended", "err", err)
	}
}

// run probes until the context ends.
func (p *probe) run(ctx context.Context) error {
	config := rest.CopyConfig(p.config)
	config.UserAgent = probeAgent
	config.QPS = -1
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the probe's client: %w", err)
	}
	host, _ := os.Hostname() // "" will do as a name
	name := fmt.Sprintf("%s-%x", probeAgent, sha256.Sum256([]byte(host+" "+config.Host)))[:len(probeAgent)+11]
	leases := client.Leases(probeNamespace)
	defer lifetime.Start(ctx, func(ctx context.Context) { p.watch(ctx, leases, name) })()
	ticker := time.NewTicker(p.period)
	defer ticker.Stop()
	for {
		began := time.Now()
		revision, err := p.write(ctx, leases, name, host)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.accounts.ProbeWriteFailed(err)
		} else {
			p.accounts.ProbeWrote(revision, began, time.Now())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write changes the Lease, or creates it, and returns its revision.
func (p *probe) write(ctx context.Context, leases coordinationclient.LeaseInterface, name, host string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &host, RenewTime: &metav1.MicroTime{Time: time.Now()}}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return 0, fmt.Errorf("encode the probe: %w", err)
	}
	lease, err := leases.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	}
	if err != nil {
		return 0, fmt.Errorf("write Lease %s/%s: %w", probeNamespace, name, err)
	}
	return strconv.ParseInt(lease.ResourceVersion, 10, 64)
}

// watch watches the Lease until the context ends, again after each end of a watch.
func (p *probe) watch(ctx context.Context, leases coordinationclient.LeaseInterface, name string) {
	for ctx.Err() == nil {
		err := p.followOnce(ctx, leases, name)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.accounts.ProbeWatchFailed(fmt.Errorf("watch Lease %s/%s: %w", probeNamespace, name, err))
		}
		select {
		case <-time.After(probeRetry):
		case <-ctx.Done():
		}
	}
}

// followOnce watches the Lease until the watch ends.
func (p *probe) followOnce(ctx context.Context, leases coordinationclient.LeaseInterface, name string) error {
	w, err := leases.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		switch obj := event.Object.(type) {
		case *coordinationv1.Lease:
			if revision, err := strconv.ParseInt(obj.ResourceVersion, 10, 64); err == nil {
				p.accounts.ProbeSaw(revision, time.Now())
			}
		case *metav1.Status:
			return apierrors.FromObject(obj)
		}
	}
	return nil
}
