package differential

import (
	"net/url"
	"strconv"
)

// disputed recognizes requests that Kubernetes itself answers in two ways. One
// is a later page at version 0: it has no limit if the watch cache still holds
// the page's revision, and has one if etcd answers. The other is a list
// narrowed to one namespace whose token continues in another namespace.
func disputed(r request) bool {
	if elsewhere(r) {
		return true
	}
	q, _ := url.ParseQuery(r.query)
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
