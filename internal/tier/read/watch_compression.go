package read

import (
	"fmt"
	"net/http"
)

// WatchCompression says which watches are compressed for clients that accept gzip. It is
// the value of a flag.
//
// Not every client that accepts gzip decodes an event when it comes. An InputStreamReader
// over Java's GZIPInputStream hands out nothing before it has 8 KiB of text, and neither
// does Python's GzipFile. Kubernetes' client for Python does not decode watches at all.
// Such a client would miss the events of a quiet resource.
//
// So by default a plain watch is compressed only if its client asks for that by
// CompressWatchHeader. Watch-lists are compressed because Kubernetes does so, and their
// clients must expect it.
type WatchCompression string

const (
	// CompressNoWatches compresses no watch.
	CompressNoWatches WatchCompression = "none"
	// CompressRequestedWatches compresses watches with CompressWatchHeader.
	CompressRequestedWatches WatchCompression = "requested"
	// CompressWatchLists compresses watch-lists, and watches with CompressWatchHeader. It
	// is the default.
	CompressWatchLists WatchCompression = "watch-lists"
	// CompressAllWatches compresses every watch.
	CompressAllWatches WatchCompression = "all"
)

// CompressWatchHeader in the request of a watch says that the client decodes each event
// of a compressed watch when it comes. Any value but the empty one will do. The client
// must accept gzip as well.
const CompressWatchHeader = "X-Millrace-Compress-Watch"

// Set implements pflag.Value.
func (c *WatchCompression) Set(value string) error {
	switch v := WatchCompression(value); v {
	case CompressNoWatches, CompressRequestedWatches, CompressWatchLists, CompressAllWatches:
		*c = v
		return nil
	}
	return fmt.Errorf("%q is unknown: give %q, %q, %q or %q",
		value, CompressNoWatches, CompressRequestedWatches, CompressWatchLists, CompressAllWatches)
}

// String implements pflag.Value.
func (c *WatchCompression) String() string { return string(*c) }

// Type implements pflag.Value.
func (*WatchCompression) Type() string { return "string" }

// compressesWatch reports whether a watch is compressed if its client accepts gzip.
func (q *query) compressesWatch(header http.Header) bool {
	switch q.route.cfg.Shared.CompressWatches {
	case CompressAllWatches:
		return true
	case CompressWatchLists:
		return q.isWatchList() || header.Get(CompressWatchHeader) != ""
	case CompressRequestedWatches:
		return header.Get(CompressWatchHeader) != ""
	}
	return false
}

// isWatchList reports whether a watch begins with the objects and a bookmark after them.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.isListWatchRequest; compare at each upgrade.
func (q *query) isWatchList() bool {
	o := &q.options
	return o.SendInitialEvents != nil && *o.SendInitialEvents && o.AllowWatchBookmarks
}
