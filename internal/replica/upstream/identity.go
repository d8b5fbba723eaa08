package upstream

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// publishedMap is the config map in which API servers publish whom they trust.
const publishedMap = "extension-apiserver-authentication"

// Identity names the upstream: its cluster, by the UID of a config map that each cluster
// has and that the replica may read, and its version, on which the defaults of what it
// sends depend.
func (u *Upstream) Identity(ctx context.Context) (string, error) {
	return u.identity(ctx, u.newest.Load().version)
}

func (u *Upstream) identity(ctx context.Context, version string) (string, error) {
	published, err := u.configMaps.ConfigMaps(metav1.NamespaceSystem).Get(ctx, publishedMap, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read which cluster the upstream is: %w", err)
	}
	return string(published.UID) + " " + version, nil
}

// CheckSibling returns an error unless a server says that it is of the upstream's cluster and
// version, as another replica in front of the upstream does. sibling leads to that server.
func (u *Upstream) CheckSibling(ctx context.Context, sibling *Door) error {
	other, err := New(Config{Door: sibling, Own: u.cfg.Own, Logger: u.cfg.Logger, Panics: u.cfg.Panics})
	if err != nil {
		return err
	}
	version, err := other.ReadVersion(ctx)
	if err != nil {
		return err
	}
	theirs, err := other.identity(ctx, version)
	if err != nil {
		return err
	}
	own, err := u.Identity(ctx)
	if err == nil && theirs != own {
		err = fmt.Errorf("it is of cluster and version %q, and the upstream of %q", theirs, own)
	}
	return err
}
