// Package discovery is the command "bench discovery": it measures what discovery and
// OpenAPI cost a server with many custom resource definitions.
//
// Package crd runs the servers. There are three measurements. Package load requests each document.
// client-go's discovery client discovers everything. Polls of aggregated discovery wait for a
// definition that was just added.
package discovery
