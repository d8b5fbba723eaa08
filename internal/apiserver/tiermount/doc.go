// Package tiermount puts the read tier together, and into Kubernetes' server: its storage below
// the registries, its handler in front of theirs, a route for each resource that is stored,
// its metrics and its reports.
//
//	New ──► ReadTier ──Hooks──► kube.Build ──► server ──SetRoutes──► ReadTier
//
// The caller makes a ReadTier over the Backends of package source, sets what a replica has
// beside a server, builds a server with its Hooks, and calls SetRoutes with that server.
// The package starts nothing.
package tiermount
