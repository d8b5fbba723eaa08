package serve

import "github.com/millrace/millrace/internal/tier/read"

// watches returns the options of watches. Kubernetes compresses watch-lists since 1.37, so an
// upstream of another version may not: then watches are compressed only on request.
func (r *Replica) watches() watchOptions {
	made := r.options.watches()
	if made.compression == read.CompressWatchLists && r.upstream.Skew() != 0 {
		made.compression = read.CompressRequestedWatches
	}
	return made
}
