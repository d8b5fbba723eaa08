// Package tiermount puts the read tier together, and into Kubernetes' server. The tier's
// storage goes below the registries, and its handler before theirs. Each stored resource
// gets a route, and the server gets the tier's metrics and reports.
//
//	New ──► ReadTier ──Hooks──► kube.Build ──► server ──SetRoutes──► ReadTier
//
// The caller makes a ReadTier over the Backends of package source, and sets what a replica
// has beside a server. It builds a server with the ReadTier's Hooks, and calls SetRoutes
// with that server. The package starts nothing.
package tiermount
