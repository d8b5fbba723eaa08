package differential

import (
	"net/url"
	"strconv"
)

// disputed recognizes requests that Kubernetes answers in two ways: a later page
// at version 0 has no limit if its cache still holds the page's revision, and
// has one if etcd is asked. A list of one namespace among all may continue in another.
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
