package follow

import (
	"context"

	"github.com/millrace/millrace/internal/feed/apifeed"
)

// wentBack implements apifeed.Config.WentBack. A resource may seem to have another history.
// That proves another history of the whole upstream only if its server counts the same
// revisions as the server of definitions. No other server can take definitions over. An
// aggregated server that has taken the resource over counts its own revisions, and so does an
// etcd of the resource alone.
func (s *Resources) wentBack(ctx context.Context, f *apifeed.Feed) (bool, error) {
	described := s.lookup(Key{GroupResource: definitions})
	if described == nil || described.currentFeed() == nil {
		return true, nil // there is nothing to compare with
	}
	return f.WentBackWith(ctx, described.currentFeed())
}
