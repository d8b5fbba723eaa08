// Package discovery is the command "bench discovery": it measures what discovery and
// OpenAPI cost a server with many custom resource definitions.
//
// The servers are those of package crd. They are asked in three ways: each document
// by package load, everything by client-go's discovery client, and repeatedly for a
// definition that was just added.
package discovery
