package serve

import (
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/tier/read"
)

// watches returns the options of watches. Kubernetes compresses watch-lists since 1.37, so an
// upstream of another version may not: then watches are compressed only on request.
func (r *Replica) watches() tiermount.WatchOptions {
	made := r.options.watches()
	if made.Compression == read.CompressWatchLists && r.upstream.Skew() != 0 {
		made.Compression = read.CompressRequestedWatches
	}
	return made
}
