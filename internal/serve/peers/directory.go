package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// Namespace is where the Leases are.
const Namespace = metav1.NamespaceSystem

const (
	// label marks the Leases of servers. annotation has a Member as JSON.
	label      = "millrace.io/server"
	annotation = "millrace.io/server-state"
	// lifetime is how many intervals a Lease counts without being renewed.
	lifetime = 3
	// forgetAfter is the time after which any server deletes a Lease that did not change.
	forgetAfter = time.Hour
	// maxMembers bounds the Leases that are used. There are few API servers.
	maxMembers = 100
	// maxWatches is the largest number of watches that is believed.
	maxWatches = 1_000_000
	// maxLifetime is the longest time for which a Lease counts without being renewed.
	maxLifetime = lifetime * 5 * time.Minute
	// requestTimeout bounds a request about Leases.
	requestTimeout = 5 * time.Second
)

// Member is the state that a server reports to others.
type Member struct {
	// Name is the name of the server's Lease. It is not part of the JSON.
	Name string `json:"-"`
	// Ready says that the server takes clients: its feeds are healthy, and no cache is known
	// to be wrong. A server that shuts down deletes its Lease.
	Ready bool `json:"ready"`
	// Watches is the number of watches that it could send to other servers.
	Watches int `json:"watches"`
	// Caches are the digests of its caches, by the id of the etcd cluster.
	Caches map[string]CacheState `json:"caches,omitempty"`
}

// CacheState is the digest of a cache at a revision.
type CacheState struct {
	Revision int64  `json:"revision"`
	Digest   string `json:"digest"`
	// Algorithm is the number of the way in which the digest was computed.
	Algorithm int `json:"algorithm"`
}

// Config configures Directory. All fields except Logger are needed.
type Config struct {
	// Leases is the client for Leases in Namespace.
	Leases coordinationclient.LeaseInterface
	// Name is the name of this server's Lease. It is the same after a restart.
	Name string
	// Interval is the time between two writes.
	Interval time.Duration
	// Self returns the state of this server. Its Name is not used.
	Self func() Member
	// Observe receives the states of the other servers that run, in each round that succeeds.
	// Run's goroutine calls it.
	Observe func([]Member)
	// Logger receives failures. Nil means slog.Default.
	Logger *slog.Logger
}

// Directory writes a server's Lease, and reads the Leases of others. Its fields belong to Run's
// goroutine.
type Directory struct {
	cfg Config
	// failed says that the last round failed. Only the first of several failures is logged.
	failed bool
	// seen has what is known of the Leases of others, by name.
	seen map[string]leaseAge
}

// leaseAge is what a server knows, by its own clock, about the Lease of another server. The
// time stamps in a Lease are not used, because clocks of servers differ. Kubernetes' leader
// election goes by the same rule.
type leaseAge struct {
	resourceVersion string
	// changedAt is when the Lease was first seen with this resource version.
	changedAt time.Time
	// renewed says that it has changed since it was first seen.
	renewed bool
}

// New makes a Directory. It does nothing before Run.
func New(cfg Config) *Directory {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Directory{cfg: cfg, seen: map[string]leaseAge{}}
}

// Run writes and reads until the context ends, and then deletes the server's Lease.
func (d *Directory) Run(ctx context.Context) error {
	ticker := time.NewTicker(d.cfg.Interval)
	defer ticker.Stop()
	defer d.leave(ctx)
	for {
		err := d.round(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !d.failed {
			d.cfg.Logger.Warn("Could not tell other servers about this one, or read about them", "err", err)
		}
		d.failed = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *Directory) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := d.write(ctx); err != nil {
		return err
	}
	others, err := d.read(ctx)
	if err != nil {
		return err
	}
	d.cfg.Observe(others)
	return nil
}

// leave deletes the server's Lease, so that others do not count it any more.
func (d *Directory) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	_ = d.cfg.Leases.Delete(ctx, d.cfg.Name, metav1.DeleteOptions{}) // it expires anyway
}

// write renews the server's Lease, or creates it.
func (d *Directory) write(ctx context.Context) error {
	state, err := json.Marshal(d.cfg.Self())
	if err != nil {
		return fmt.Errorf("encode the state of server %s: %w", d.cfg.Name, err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: d.cfg.Name, Labels: map[string]string{label: "true"}, Annotations: map[string]string{annotation: string(state)}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &d.cfg.Name, RenewTime: &metav1.MicroTime{Time: time.Now()},
			LeaseDurationSeconds: ptr.To(max(1, int32((lifetime * d.cfg.Interval).Seconds()))),
		},
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": lease.Labels, "annotations": lease.Annotations}, "spec": lease.Spec,
	})
	if err != nil {
		return fmt.Errorf("encode Lease %s: %w", d.cfg.Name, err)
	}
	_, err = d.cfg.Leases.Patch(ctx, d.cfg.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = d.cfg.Leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Lease %s: %w", d.cfg.Name, err)
	}
	return nil
}

// read returns the states of the other servers that run, and deletes Leases that have not
// changed for forgetAfter.
func (d *Directory) read(ctx context.Context) (others []Member, err error) {
	list, err := d.cfg.Leases.List(ctx, metav1.ListOptions{LabelSelector: label, ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list Leases of servers: %w", err)
	}
	others, dead := d.judge(list.Items[:min(len(list.Items), maxMembers)], time.Now())
	for _, lease := range dead {
		// Another server may do so at the same time.
		_ = d.cfg.Leases.Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &lease.ResourceVersion}})
	}
	return others, nil
}

// judge returns the states of servers whose Leases have been renewed lately, and the Leases of
// servers that ended long ago. A Lease that is seen for the first time may be of a server
// that has ended, so it counts once it is renewed. judge replaces d.seen.
func (d *Directory) judge(leases []coordinationv1.Lease, now time.Time) (others []Member, dead []*coordinationv1.Lease) {
	seen := make(map[string]leaseAge, len(leases))
	for i := range leases {
		lease := &leases[i]
		if lease.Name == d.cfg.Name {
			continue
		}
		last, known := d.seen[lease.Name]
		if !known || last.resourceVersion != lease.ResourceVersion {
			last = leaseAge{resourceVersion: lease.ResourceVersion, changedAt: now, renewed: known}
		}
		seen[lease.Name] = last
		age := now.Sub(last.changedAt)
		if age > forgetAfter {
			dead = append(dead, lease)
		}
		if m, ok := memberOf(lease); ok && last.renewed && age <= min(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0))*time.Second, maxLifetime) {
			others = append(others, m)
		}
	}
	d.seen = seen
	return others, dead
}

// memberOf reads the state in a Lease. It returns false for what no server of this version
// would write.
func memberOf(lease *coordinationv1.Lease) (m Member, ok bool) {
	if err := json.Unmarshal([]byte(lease.Annotations[annotation]), &m); err != nil || m.Watches < 0 || m.Watches > maxWatches {
		return Member{}, false
	}
	m.Name = lease.Name
	return m, true
}
