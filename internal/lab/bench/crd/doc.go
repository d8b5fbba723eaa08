// Package crd is the command "bench crd": it measures what custom resource
// definitions cost a server, from installing them to deleting them.
//
// A Fixture runs one server over an empty data directory. It creates the definitions, waits until
// discovery lists them and LISTs of their objects succeed, and restarts the server. Package
// discovery reuses Fixture, Options and EachReadPath for other measurements.
//
// The definitions come from package fill, with a fixed seed: two runs with the same flags have
// the same data.
package crd
