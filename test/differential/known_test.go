package differential

import (
	"net/url"
	"strconv"
)

// disputed recognizes requests that Kubernetes itself answers in two ways. One
// is a later page at version 0: it has no limit if the watch cache still holds
// the page's revision, and has one if etcd answers. Another is a list
// narrowed to one namespace whose token continues in another namespace. The third is
// a page of a shard: Kubernetes 1.36 counts the objects of all shards behind the page, or
// some of them if etcd answers. Later versions do not count.
func disputed(r request) bool {
	if elsewhere(r) {
		return true
	}
	q, _ := url.ParseQuery(r.query)
	if q.Get("shardSelector") != "" && q.Has("limit") {
		return true
	}
	if !q.Has("limit") || q.Get("continue") == "" {
		return false
	}
	for _, version := range q["resourceVersion"] {
		if n, err := strconv.ParseUint(version, 10, 64); err == nil && n == 0 {
			return true
		}
	}
	return false
}
