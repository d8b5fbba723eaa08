package follow

import (
	"context"

	"github.com/millrace/millrace/internal/feed/apifeed"
)

// wentBack is an apifeed.Config.WentBack. A resource that seems to have another history proves
// one of the whole upstream if its server counts the revisions that the upstream itself counts
// for definitions, which no other server can take over. An aggregated server that has taken the
// resource over counts its own, and so does an etcd of the resource alone.
func (s *Resources) wentBack(ctx context.Context, f *apifeed.Feed) (bool, error) {
	described := s.lookup(Key{GroupResource: definitions})
	if described == nil || described.currentFeed() == nil {
		return true, nil // there is nothing to compare with
	}
	return f.WentBackWith(ctx, described.currentFeed())
}
