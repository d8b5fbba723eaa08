// Package crd is the command "bench crd": it measures what custom resource
// definitions cost a server, from installing them to deleting them.
//
// Fixture has the steps that measurements share: start or restart a server, install definitions,
// and wait until discovery lists them or LISTs of their objects succeed. Package discovery reuses
// Fixture, Options and EachReadPath for other measurements.
//
// The definitions come from package fill, with a fixed seed: two runs with the same flags have
// the same data.
package crd
