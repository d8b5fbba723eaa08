package replica

import "net/url"

// readAlike reports whether all minor versions read the parameters of a read in the same
// way. A newer one may know others, and shards are alpha: 1.36 counts the remaining items of
// a shard, and 1.37 does not.
func readAlike(parameters url.Values) bool {
	for name := range parameters {
		switch name {
		case "allowWatchBookmarks", "continue", "fieldSelector", "includeObject", "labelSelector", "limit", "pretty",
			"resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeout", "timeoutSeconds", "watch":
		case "millraceBookmarkAtRevision", "millraceBookmarkInterval": // ours
		default:
			return false
		}
	}
	return true
}
