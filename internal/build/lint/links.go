package lint

import "strings"

// LinkRule is a program or a package, and what it must not link: the beginnings of import paths.
type LinkRule struct {
	// Package is the path of the program or package in the module.
	Package string
	Banned  []string
	// Reason says why the rule exists.
	Reason string
}

// linkRules returns the rules of all programs and packages.
func linkRules() []LinkRule {
	const kubernetes, apiserver, etcd, etcdServer, bolt = "k8s.io/kubernetes", "k8s.io/apiserver", "go.etcd.io", "go.etcd.io/etcd/server", "go.etcd.io/bbolt"
	return []LinkRule{
		{
			"cmd/millrace-tools", []string{kubernetes, apiserver, "k8s.io/api", "k8s.io/client-go/kubernetes", etcd, "google.golang.org/grpc"},
			"it is fetched by people who have a log and no cluster: 20 MB at most",
		},
		{"cmd/millrace-lab", []string{kubernetes, apiserver, etcdServer, bolt}, "it measures servers, and must not be one"},
		{"internal/feed/apifeed", []string{apiserver, etcd}, "a replica without etcd has an API alone"},
		{"internal/tier/cache", []string{apiserver, etcd}, "the cache knows the contract of a feed, and no feed"},
		{"internal/tier/watch", []string{etcd}, "the tier knows the contract of a feed, and no feed"},
		{"internal/tier/read", []string{kubernetes, etcdServer, bolt}, "reads need no etcd in the process"},
		{"internal/replica/handler", []string{kubernetes, etcdServer, bolt}, "a replica starts no etcd"},
	}
}

// bans reports whether the rule bans an import path: a package of a banned path or below it.
func (r *LinkRule) bans(path string) bool {
	for _, banned := range r.Banned {
		if path == banned || strings.HasPrefix(path, banned+"/") {
			return true
		}
	}
	return false
}
