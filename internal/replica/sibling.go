package replica

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/replica/follow"
	"github.com/millrace/millrace/internal/replica/upstream"
)

// siblingCheckTimeout bounds the check of another replica's cluster and version.
const siblingCheckTimeout = 10 * time.Second

// openSibling returns the replica that --start-from names, or nil if it names none. It also
// returns nil if that replica does not pass the check, and the log says why: the upstream has
// everything as well.
func (r *Replica) openSibling(ctx context.Context) (*follow.Sibling, error) {
	if r.options.StartFrom == "" {
		return nil, nil
	}
	named := &kubeconfig.Flags{Kubeconfig: r.options.StartFrom}
	config, err := named.Load("replica")
	if err != nil {
		return nil, fmt.Errorf("read --start-from: %w", err)
	}
	config.QPS = -1
	door, err := upstream.NewDoor(upstream.DoorConfig{Upstream: config, MayFollow: r.options.mayCopy, Metrics: r.counters, Logger: r.logger})
	if err != nil {
		return nil, fmt.Errorf("read --start-from: %w", err)
	}
	checking, cancel := context.WithTimeout(ctx, siblingCheckTimeout)
	defer cancel()
	if err := r.upstream.CheckSibling(checking, door); err != nil {
		r.options.Warn(r.out, r.logger, fmt.Sprintf("the replica %s that --start-from names is not used, and objects are loaded from the upstream: %v", config.Host, err))
		return nil, ctx.Err()
	}
	client, err := rest.HTTPClientFor(door.Own())
	if err != nil {
		return nil, fmt.Errorf("read --start-from: %w", err)
	}
	address, err := baseURL(config)
	if err != nil {
		return nil, fmt.Errorf("read --start-from: %w", err)
	}
	return &follow.Sibling{Client: client, Host: address}, nil
}

// baseURL returns the URL of a server, without a slash at its end. The address in a
// kubeconfig may have no scheme.
func baseURL(config *rest.Config) (string, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", fmt.Errorf("read the server's address %q: %w", config.Host, err)
	}
	return strings.TrimSuffix(base.String(), "/"), nil
}
