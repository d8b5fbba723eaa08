package replica

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
	published, err := u.configMaps.ConfigMaps(metav1.NamespaceSystem).Get(ctx, publishedMap, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read which cluster the upstream is: %w", err)
	}
	return string(published.UID) + " " + u.newest.Load().version, nil
}
