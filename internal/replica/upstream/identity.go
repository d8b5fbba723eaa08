package upstream

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// publishedMap is the config map in which API servers publish whom they trust.
const publishedMap = "extension-apiserver-authentication"

// Cluster names the cluster of the upstream, by the UID of publishedMap.
func (u *Upstream) Cluster(ctx context.Context) (string, error) {
	published, err := u.configMaps.ConfigMaps(metav1.NamespaceSystem).Get(ctx, publishedMap, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read which cluster the upstream is: %w", err)
	}
	return string(published.UID), nil
}

// CheckSibling returns an error unless the server to which sibling leads has the upstream's
// cluster and version, as another replica of the upstream does.
func (u *Upstream) CheckSibling(ctx context.Context, sibling *Door) error {
	other, err := New(Config{Door: sibling, Own: u.cfg.Own, Logger: u.cfg.Logger, Panics: u.cfg.Panics})
	if err != nil {
		return err
	}
	version, err := other.ReadVersion(ctx)
	if err != nil {
		return err
	}
	theirs, err := other.Cluster(ctx)
	if err != nil {
		return err
	}
	own, err := u.Cluster(ctx)
	if err == nil && (theirs != own || version != u.Version()) {
		err = fmt.Errorf("it is of cluster %q and version %q, and the upstream of %q and %q", theirs, version, own, u.Version())
	}
	return err
}
