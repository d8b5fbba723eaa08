// Package tiermount puts the read tier together, and into Kubernetes' server. The tier's
// storage goes below the registries, and its handler before theirs. Each stored resource
// gets a route, and the server gets the tier's metrics and reports.
//
//	New ──► ReadTier ──Hooks──► kube.Build ──► server ──SetRoutes──► ReadTier
//
// The caller makes a ReadTier over the Backends of package source, and sets its accounts and
// what only replicas have. It builds a server with the ReadTier's Hooks, or a replica with the
// same parts, and calls SetRoutes with it. The package starts nothing.
package tiermount
