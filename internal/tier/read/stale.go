package read

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/tier/cache"
)

// staleHeader says of an answer how old it may be, in whole seconds rounded up, as in "5s". It
// is in no answer that is proven to be new.
const staleHeader = "X-Millrace-Stale"

// staleness lets a GET or LIST without a position be answered with a stale state, if the
// server may do that. position is the resource version or the continue token, or "" for
// neither. The Staleness is nil if the answer may not be stale.
func (q *query) staleness(ctx context.Context, position string) (context.Context, *cache.Staleness) {
	if position != "" || !q.route.cfg.Shared.BoundedStaleness {
		return ctx, nil
	}
	return cache.WithStaleness(ctx)
}

// markStale sets the header of an answer that is stale.
func markStale(w http.ResponseWriter, stale *cache.Staleness) {
	if stale != nil && stale.Age > 0 {
		seconds := int64((stale.Age + time.Second - 1) / time.Second)
		w.Header().Set(staleHeader, strconv.FormatInt(seconds, 10)+"s")
	}
}
